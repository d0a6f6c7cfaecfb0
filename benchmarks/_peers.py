"""Asks the peers of benchmarks: scripts that run by a Python that has another package, one JSON request each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def ask_peer(
    python: str, script: str, request: Mapping[str, Any], *, needs: str, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a peer's script and return its answer, the last line that it prints. Ends the benchmark if it fails.

    Args:
        python: The Python that runs it.
        script: Its name in this folder.
        request: What it is asked, on its standard input.
        needs: What that Python must have, for the error.
        environment: Environment variables on top of ours.
    """
    done = subprocess.run(
        [python, str(FOLDER / script)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | (environment or {}),
    )
    if done.returncode:
        sys.exit(f"{script} failed; does {python!r} have {needs}?\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
