"""Hidden tests stay hidden: submitted code cannot show them to the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from agentgym.base.errors import TaskError
from agentgym.core.engine.steps import StepResult
from agentgym.core.messages import assistant, text_of
from agentgym.core.task import Task, TaskList
from agentgym.envs.code import CodeEnv
from agentgym.envs.code.asking import Budget, Runner
from agentgym.envs.code.calls import Submission, call_together
from agentgym.envs.code.grading import CodeGrader
from agentgym.envs.code.verdict import CodeVerdict, How, read_cases
from agentgym.tools.sandbox import Result, Sandbox
from tests.envs.code.checks import cases_of, function_task
from tests.envs.code.thief import episodes
from tests.played import call, said

pytestmark = pytest.mark.real

GOLD = "def swap(text):\n    return ' '.join(reversed(text.split()))\n"
HIDDEN = ["quarter umbrella lantern", "marble outside fourteen candles", "nobody 5521 expected 8834 this"]
CASES = cases_of(*((repr((text,)), repr(" ".join(reversed(text.split())))) for text in HIDDEN))
CHECK = "def check(candidate):\n" + "".join(
    f"    assert candidate{case['args'].replace(',)', ')')} == {case['expect']}\n" for case in CASES
)
TOGETHER = CHECK.replace("    assert", "    assert candidate(object) is not None\n    assert", 1)
GRADED = {
    "cases": {"cases": CASES, "code": GOLD},
    "replay": {"check": CHECK, "code": GOLD},
    "canaries": {"check": TOGETHER, "code": GOLD.replace("return", "return text if text is object else")},
}


def task(how: str) -> Task:
    return function_task(GRADED[how], "swap", name=how, examples=cases_of(("('two words',)", "'words two'")))


@pytest.fixture
def env() -> Iterator[CodeEnv]:
    with closing(CodeEnv(tasks=TaskList([task(how) for how in ("cases", "replay")]))) as env:
        yield env


def submit(env: CodeEnv, source: str, how: str = "cases") -> StepResult:
    env.reset(seed=0, options={"task": how})
    return call(env, "submit", answer=source)


class RecordedCodeEnv(CodeEnv):
    """Records every request of the grader."""

    def __init__(self, **kwargs: Any):
        self.requests: list[Mapping[str, Any]] = []
        super().__init__(tools="python+test", **kwargs)

    def _open(self) -> Sandbox:
        sandbox = super()._open()
        run = sandbox.exec

        def recorded(*args: Any, **kwargs: Any) -> Result:
            if kwargs.get("stdin"):
                self.requests.append(json.loads(kwargs["stdin"]))
            return run(*args, **kwargs)

        sandbox.exec = recorded  # type: ignore[method-assign]
        return sandbox


class CarelessGrader(CodeGrader):
    """Calls the function with all inputs in one process, and shows the model the resulting message."""

    def function(self, task: Task, submission: Submission) -> CodeVerdict:
        cases = read_cases(task, "cases", [*task.data["examples"], *task.gold["cases"]])
        with Runner(self._opener, self._limits, Budget(), self._call_s) as runner:
            outcome = call_together(submission, [case.arguments for case in cases], runner.apart, self._call_s)
        return CodeVerdict(False, 0.0, 0.0, 0.0, How.CASES, outcome.problem)


def hidden_in(text: str) -> set[str]:
    return {secret for secret in HIDDEN if secret in text}


def sent_in(request: Mapping[str, Any]) -> int:
    """Return the number of hidden inputs in a request, outside the submitted source."""
    return len(hidden_in(json.dumps({key: value for key, value in request.items() if key != "source"})))


def steal(env: RecordedCodeEnv) -> dict[str, Any]:
    """Let the thief play; return what it read and could have reached."""
    read, betrayed, early, most, how = set[str](), 0, 0, 0, ""
    [split] = env.tasks.splits
    task = env.tasks.get(split, 0)
    for calls in episodes(task):
        env.reset(options={"task": task})
        for tool_call in calls:
            env.requests.clear()
            step = env.step(assistant("", [tool_call]))
            output = " ".join(text_of(message) for message in step.observation)
            read |= hidden_in(output)
            betrayed += tool_call.name == "submit" and "LookupError" in output
            if step.terminated:
                how = step.info["grading"]
                most = max([most, *(sent_in(request) for request in env.requests if request["op"] == "call")])
                break
            early += sum(sent_in(request) for request in env.requests)
    return {"read": len(read), "betrayed": betrayed, "early": early, "most": most, "how": how}


@pytest.mark.parametrize("how", GRADED)
def test_a_thief_reads_no_hidden_input(how: str):
    env = RecordedCodeEnv(tasks=TaskList([task(how)]))
    stolen = steal(env)
    env.close()
    most = stolen.pop("most")
    assert stolen == {"read": 0, "betrayed": 0, "early": 0, "how": how}
    assert most <= 1


def test_the_same_thief_reads_the_inputs_of_a_careless_grader():
    env = RecordedCodeEnv(tasks=TaskList([task("cases")]))
    env._grader = CarelessGrader(env._open, env._spec.limits, 4.0)
    stolen = steal(env)
    env.close()
    assert min(stolen["read"], stolen["early"]) > 0
    assert stolen["most"] == 3


def test_no_process_is_called_with_two_hidden_inputs(env: CodeEnv):
    source = (
        "seen = set()\n" + GOLD.replace("def swap", "def right") + "def swap(text):\n"
        "    seen.add(text)\n    return right(text) if seen <= {text, 'two words'} else None\n"
    )
    for how in ("cases", "replay"):
        assert submit(env, source, how).info["is_success"]


SECRET = "supercalifragilistic"
REPLY = "os.write(int(os.environ['AGENTGYM_REPLY_FD']), (json.dumps(line) + '\\n').encode())\n"
TALKERS = {
    "a message": f"raise ValueError('{SECRET}')",
    "a name": f"raise type('{SECRET}', (KeyError,), {{}})()",
    "an error of the compiler": f"raise SyntaxError('{SECRET}', ('{SECRET}', 77, 1, '{SECRET}'))",
    "an exit": f"raise SystemExit('{SECRET}')",
    "output": f"import sys\nprint('{SECRET}')\nsys.stderr.write('{SECRET}')\n1 / 0",
    "notes": f"error = ValueError()\nerror.add_note('{SECRET}')\nraise error",
    "replies": "import json, os\n"
    f"line = {{'problem': 'raised', 'kind': '{SECRET}', 'line': '{SECRET}', 'message': '{SECRET}'}}\n"
    f"{REPLY}os._exit(0)",
    "a line far away": "import json, os\n"
    f"line = {{'problem': 'raised', 'kind': 'KeyError', 'line': 123456789, 'message': ''}}\n{REPLY}os._exit(0)",
}


def test_submitted_code_cannot_choose_the_words_of_a_refusal(env: CodeEnv):
    for name, source in TALKERS.items():
        output = said(submit(env, source))
        assert "not graded" in output, name
        assert [word for word in (SECRET, "123456789", "77") if word in output] == [], name


def test_code_that_fails_on_hidden_tests_is_wrong_without_explanation(env: CodeEnv):
    for fault in ("raise LookupError(text)", "import os; os._exit(3)", "raise SystemExit(text)", "return text"):
        step = submit(env, f"def swap(text):\n    {fault}\n")
        assert said(step) == "Submitted."
        assert step.terminated
        assert not step.info["is_success"]


def test_a_failing_prelude_is_an_error_of_the_task_and_cannot_be_forged(env: CodeEnv):
    forged = f"import json, os\nline = {{'problem': 'prelude', 'message': ''}}\n{REPLY}1 / 0"
    assert submit(env, forged).info["is_success"] is False
    sound = task("cases")
    broken = replace(sound, data={**sound.data, "prelude": "import nothing_like_this\n"})
    other = CodeEnv(tasks=TaskList([broken]))
    with pytest.raises(TaskError, match="nothing_like_this"):
        submit(other, GOLD)
    other.close()
