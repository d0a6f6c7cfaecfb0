"""Judges the work on a task with the grader of its environment, and writes the reward. Needs Python 3.11.

Everything that it needs to know is read into memory, and removed from the disk, before anything is looked at that the
agent wrote. What the agent wrote runs as a user without rights if this runs as root.

    grade.py [ROOT]     ROOT is the root of the file system that holds /app and /logs, by default /
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

PLACE = Path(__file__).resolve().parent


def main(root: Path) -> None:
    """Write the reward. An error of the grader itself writes none."""
    sys.path.insert(0, str(PLACE))
    sys.dont_write_bytecode = True
    os.umask(0o022)
    os.chdir("/")
    with tempfile.TemporaryDirectory() as own:
        os.chmod(own, 0o711)
        tempfile.tempdir = own
        # What is cached must neither come from the agent nor be seen by what it wrote.
        os.environ["AGENTGYM_CACHE"] = tempfile.mkdtemp()
        known = json.loads((PLACE / "task.json").read_text(encoding="utf-8"))
        _load_all()
        from agentgym.core.task import Task

        judge = importlib.import_module(known["judge"])
        judged = judge.prepare(Task.from_dict(known["task"]), known["given"], PLACE)
        shutil.rmtree(PLACE, ignore_errors=True)
        _write(root / "logs/verifier", judged(root))


def _load_all() -> None:
    """Import all modules while they are there: some import others only when they need them."""
    for path in sorted(PLACE.glob("*/**/*.py")):
        importlib.import_module(".".join(path.relative_to(PLACE).with_suffix("").parts).removesuffix(".__init__"))


def _write(folder: Path, rewards: dict[str, float]) -> None:
    """Write the rewards, replacing whatever is there, never through a link."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("reward.json", json.dumps(dict(rewards))), ("reward.txt", str(rewards["reward"]))):
        made = folder / f".{name}.{os.urandom(8).hex()}"
        made.write_text(text, encoding="utf-8")
        made.replace(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/").resolve())
