"""Small task folders in the formats of Harbor and of the first Terminal-Bench, written here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

BASE = os.environ.get("AGENTGYM_TEST_IMAGE", "")
_CHECK = "if grep -qsx hello /app/out.txt; then echo 1; else echo 0; fi > $REWARD\n"


def harbor_task(
    folder: Path,
    *,
    config: str = "",
    instruction: str = "Write hello to /app/out.txt.\n",
    dockerfile: str = "",
    tests: Mapping[str, str] | None = None,
    solution: Mapping[str, str] | None = None,
) -> Path:
    """Write a Harbor task and return its folder. In scripts, `$REWARD` is the reward file."""
    write(folder / "task.toml", config or 'schema_version = "1.4"\n')
    write(folder / "instruction.md", instruction)
    write(folder / "environment/Dockerfile", f"FROM {BASE or 'scratch'}\nWORKDIR /app\n{dockerfile}\n")
    for name, text in (tests or {"test.sh": _CHECK}).items():
        write(folder / "tests" / name, text if text.startswith(("#!", "FROM")) else _script(text))
    for name, text in (solution or {"solve.sh": "echo hello > /app/out.txt\n"}).items():
        write(folder / "solution" / name, _script(text))
    return folder


def terminal_bench_task(folder: Path) -> Path:
    """Write a task of the first Terminal-Bench and return its folder."""
    write(
        folder / "task.yaml",
        "instruction: |-\n  Write hello to /app/out.txt.\ndifficulty: easy\ncategory: software_engineering\n"
        "tags:\n  - file-operations\nparser_name: pytest\nmax_agent_timeout_sec: 120.0\nmax_test_timeout_sec: 30.0\n",
    )
    write(folder / "Dockerfile", f"FROM {BASE or 'scratch'}\nWORKDIR /app\nCOPY . /app/\n")
    write(
        folder / "docker-compose.yaml",
        "services:\n  client:\n    build:\n      dockerfile: Dockerfile\n"
        "    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}\n"
        '    command: [ "sh", "-c", "sleep infinity" ]\n'
        "    environment:\n      - TEST_DIR=${T_BENCH_TEST_DIR}\n"
        "    volumes:\n      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}\n",
    )
    write(folder / "run-tests.sh", "#!/bin/bash\npython3 $TEST_DIR/test_outputs.py\n")
    write(
        folder / "tests/test_outputs.py",
        "from pathlib import Path\n\n\n"
        "def test_hello():\n    assert Path('/app/out.txt').read_text() == 'hello\\n'\n\n\ntest_hello()\n",
    )
    write(folder / "solution.sh", "#!/bin/bash\necho hello > /app/out.txt\n")
    return folder


def write(path: Path, text: str) -> None:
    """Write a file; scripts are executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if text.startswith("#!"):
        path.chmod(0o755)


def _script(text: str) -> str:
    return f"#!/bin/bash\nREWARD=/logs/verifier/reward.txt\n{text}"
