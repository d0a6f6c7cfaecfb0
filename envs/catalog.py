"""The bundled environments by id. A class is imported only when an environment is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.tasks.miniwob_pages import MINIWOB_PAGES

ENVIRONMENTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "agentgym/code-v0": ("agentgym.envs.code:CodeEnv", {}),
    "agentgym/errand-v0": ("agentgym.envs.errand:ErrandEnv", {}),
    "agentgym/guess-v0": ("agentgym.envs.guess:GuessEnv", {}),
    "agentgym/search-v0": ("agentgym.envs.search:SearchEnv", {}),
    "agentgym/sql-v0": ("agentgym.envs.sql:SQLEnv", {}),
    "agentgym/swe-v0": ("agentgym.envs.swe:SWEEnv", {}),
    "agentgym/web-v0": ("agentgym.envs.web:WebEnv", {}),
    **{f"agentgym/miniwob-{page}-v0": ("agentgym.envs.web:MiniWoBEnv", {"page": page}) for page in MINIWOB_PAGES},
}
"""The path of each class, and the arguments that the id implies."""

ON_FILES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "agentgym/bfcl-v0": ("agentgym.interop.envs.bfcl:BFCLEnv", {}),
    "agentgym/terminal-v0": ("agentgym.envs.terminal:TerminalEnv", {}),
    "agentgym/webarena-v0": ("agentgym.envs.webarena:WebArenaEnv", {}),
}
"""The same for environments whose tasks come from the user's files or packages."""
