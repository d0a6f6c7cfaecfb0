"""Judges the answer to a task with the grader of agentgym's code environment, and writes the reward.

It reads what it needs to know into memory and removes it from the disk before it runs anything that the agent wrote,
which runs as a user without rights if this runs as root. Needs Python 3.11.
"""

import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path

PLACE = Path(__file__).resolve().parent
REWARD = Path("/logs/verifier/reward.json")
CALL_S = 4.0


def main() -> None:
    """Write the reward. An error of the grader itself writes none."""
    sys.path.insert(0, str(PLACE))
    sys.dont_write_bytecode = True
    known = json.loads((PLACE / "task.json").read_text(encoding="utf-8"))
    from agentgym.envs.code.calls import Submission
    from agentgym.envs.code.grading import Grader
    from agentgym.errors import ToolError
    from agentgym.task import Task
    from agentgym.tools.sandbox import Sandbox, SandboxLimits

    shutil.rmtree(PLACE, ignore_errors=True)
    task = Task.from_dict(known["task"])
    answer = read(Path(known["answer"]))
    # Type checkers see the sandbox that this one stands in for.
    grader = Grader(Sandbox, SandboxLimits(), CALL_S)  # pyright: ignore[reportArgumentType]
    rewards = {"reward": 0.0}
    if answer.strip() and task.data["kind"] in ("function", "fix"):
        submission = Submission(answer, task.data["entry_point"], task.data.get("prelude", ""))
        verdict = grader.function(task, submission)
        rewards = {"reward": float(verdict.solved), "hidden": verdict.hidden, "visible": verdict.visible}
    elif answer.strip():
        with suppress(ToolError):  # an answer of more characters than a value needs
            rewards = {"reward": float(grader.value(task, answer).solved)}
    REWARD.parent.mkdir(parents=True, exist_ok=True)
    REWARD.write_text(json.dumps(rewards), encoding="utf-8")


def read(path: Path) -> str:
    """Return the text of the answer; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""


if __name__ == "__main__":
    main()
