"""Judges the work on a task with the grader of its environment, and writes the reward. Needs Python 3.11.

It reads the task and its modules into memory and removes them from the disk before it opens any file of the agent. If
it runs as root, it runs the agent's code as an unprivileged user.

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
    """Write the reward. An error of the grader itself writes nothing."""
    sys.path.insert(0, str(PLACE))
    sys.dont_write_bytecode = True
    os.umask(0o022)
    os.chdir("/")
    with tempfile.TemporaryDirectory() as own:
        os.chmod(own, 0o711)
        tempfile.tempdir = own
        # The agent must neither fill the cache nor read it.
        os.environ["AGENTGYM_CACHE"] = tempfile.mkdtemp()
        judge_input = json.loads((PLACE / "task.json").read_text(encoding="utf-8"))
        _load_all()
        from agentgym.core.task import Task

        judge = importlib.import_module(judge_input["judge"])
        rewards_of = judge.prepare(Task.from_dict(judge_input["task"]), judge_input["given"], PLACE)
        shutil.rmtree(PLACE, ignore_errors=True)
        _write(root / "logs/verifier", rewards_of(root))


def _load_all() -> None:
    """Import all modules before their files are removed, since some imports are lazy."""
    for path in sorted(PLACE.glob("*/**/*.py")):
        importlib.import_module(".".join(path.relative_to(PLACE).with_suffix("").parts).removesuffix(".__init__"))


def _write(folder: Path, rewards: dict[str, float]) -> None:
    """Write the rewards, replacing existing files or links instead of following them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("reward.json", json.dumps(dict(rewards))), ("reward.txt", str(rewards["reward"]))):
        temporary = folder / f".{name}.{os.urandom(8).hex()}"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/").resolve())
