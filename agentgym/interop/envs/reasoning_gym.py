"""`ReasoningGymEnv`: any generator of reasoning-gym, with its own scorer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Unpack

from agentgym.base.choices import named, settings_of
from agentgym.base.errors import BrokenTask, NoSolution, TaskError
from agentgym.core.endings import Reason
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.engine.steps import Solution
from agentgym.core.foreign import as_usage_error, describe
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME, SOLVED_AT, Channel, Scheme
from agentgym.core.task import TEST, TRAIN, GeneratedTasks, Task, split_of
from agentgym.core.toolset import Toolset, tool
from agentgym.interop.envs.bounded_evaluation import TooMuchWork, bounded_work, is_harmless_formula, is_harmless_value
from agentgym.interop.packages import package
from agentgym.interop.wrapper import Caveat, Randomness, Wrapped

_factory = package("reasoning_gym.factory")
package("reasoning_gym")  # registers the generators
_SHARES = {TRAIN: 0.8, TEST: 0.2}
_FIRST_SEED = {TRAIN: 0, TEST: 2**31}
_CHUNK = 500
"""Items of one data set; several generators have no more for one seed."""
_TRIES = 100
_APART = 2**20
"""Distance between the seeds of the attempts at one task, so that tasks share no item."""
_CACHED = 6
"""Number of data sets to cache; some take seconds and megabytes."""

_MOST_CALLS = 2_000_000
"""Maximum function calls for scoring an answer, some seconds; right answers take at most about 30,000."""
_HARMLESS: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys(("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"), is_harmless_value),
    **dict.fromkeys(
        (
            "countdown",
            "intermediate_integration",
            "polynomial_multiplication",
            "puzzle24",
            "simple_integration",
        ),
        is_harmless_formula,
    ),
}
"""Checks of answers, for generators whose scorers evaluate them as Python."""
_BY_TEXT = frozenset({"game_of_life_halting"})
"""Generators whose scorers accept any text; here the answer must equal the right one."""

_ASKS = {"tool": "Call `answer` with your final answer alone.", "text": "Write your final answer alone, nothing else."}


class Generator:
    """One generator of reasoning-gym with its settings."""

    def __init__(self, name: str, config: Mapping[str, Any]):
        named("dataset", name, _factory.DATASETS)
        self.name, self.config = name, settings_of("config", config)
        self._randomness = Randomness()
        self._datasets: OrderedDict[int, Any] = OrderedDict()

    def item(self, seed: int, index: int) -> dict[str, Any]:
        """Return an item: `question`, `answer` and `metadata`."""
        self._randomness.seed(seed + index)
        with self._randomness.swapped_in():
            return self._dataset(seed)[index]

    def may_score(self, answer: str) -> bool:
        """Whether the scorer can be trusted with an answer: some run it as Python, and one accepts NaN."""
        if self.name == "complex_arithmetic":
            return "nan" not in answer.lower()
        return _HARMLESS.get(self.name, lambda _: True)(answer)

    def score(self, answer: str, seed: int, index: int) -> float:
        """Return the generator's own score of an answer to an item."""
        item = self.item(seed, index)
        with self._randomness.swapped_in(), bounded_work(_MOST_CALLS):
            return float(self._dataset(seed).score_answer(answer, entry=item))

    def _dataset(self, seed: int) -> Any:
        if seed not in self._datasets:
            with as_usage_error(f"the dataset {self.name!r} cannot be made"):
                dataset = _factory.create_dataset(self.name, **{"size": _CHUNK, **self.config, "seed": seed})
            self._datasets[seed] = dataset
            if len(self._datasets) > _CACHED:
                self._datasets.popitem(last=False)
        self._datasets.move_to_end(seed)
        return self._datasets[seed]


def _task(generator: Generator, split: str, index: int) -> Task:
    """Return the first item for this index whose question belongs to the split, since questions repeat."""
    chunk, place = divmod(index, _CHUNK)
    for number in range(_TRIES):
        seed = _FIRST_SEED[split] + chunk * _CHUNK + number * _APART
        item = generator.item(seed, place)
        if split_of(item["question"], _SHARES) == split:
            data = {"dataset": generator.name, "seed": seed, "index": place}
            gold = {"answer": item["answer"]}
            return Task(f"{generator.name}/{split}/{index}", split, item["question"], data=data, gold=gold)
    raise TaskError(f"{generator.name!r} has too few different questions for the split {split!r}")


class ReasoningGymEnv(Wrapped):
    """Answer a question that a generator of reasoning-gym asks.

    Task: an item of the generator. Its question decides the split.
    Tools: `answer`, or none with `answer_by="text"`.
    Reward: `outcome` 1 if the generator scores the answer 1; `score`, that score, which the scheme `own` pays.
    Episode end: an answer, or 4 turns have passed.

    Args:
        dataset: Name of the generator, such as `chain_sum`.
        config: Its settings, such as `{"min_terms": 3}`.
        answer_by: `"tool"`, or `"text"`: the first message is the answer.
    """

    channels = {
        OUTCOME: Channel("1 if the generator scores the answer 1"),
        "score": Channel("the generator's score of the answer"),
    }
    schemes: ClassVar[Mapping[str, Scheme]] = {"own": Scheme({"score": 1.0}, allow_unsound=True)}
    states_turns = True
    max_turns = 4
    harmless_arguments = frozenset(Wrapped.harmless_arguments | {"dataset", "config", "answer_by"})

    def __init__(
        self,
        dataset: str,
        config: Mapping[str, Any] | None = None,
        *,
        answer_by: str = "tool",
        **kwargs: Unpack[EnvArguments],
    ):
        self._ask = named("answer_by", answer_by, _ASKS)
        if answer_by == "text":
            self.tools = Toolset(())
        self._source = Generator(dataset, config or {})
        tasks = GeneratedTasks(dataset, partial(_task, self._source), dict.fromkeys(_SHARES))
        super().__init__(tasks=tasks, **kwargs)

    def start(self, task: Task) -> str:
        """Ask the question."""
        self._problem = ""
        return f"{task.prompt}\n\n{self._ask}"

    @tool
    def answer(self, answer: str) -> str:
        """Give the final answer. This ends the episode.

        Args:
            answer: The answer alone, in the form that the question asks for.
        """
        return self._submit(answer)

    def respond(self, text: str) -> str:
        """Score a message if answers are texts."""
        return super().respond(text) if len(self.tools) else self._submit(text)

    def _submit(self, answer: str) -> str:
        score = self._score(answer)
        self.reward("score", min(score, SOLVED_AT))
        # Partial scores of a wrong answer may add up to a little more than 1.
        self.reward(OUTCOME, float(score == SOLVED_AT))
        self.finish(Reason.ANSWERED)
        return "Answered."

    def _score(self, answer: str) -> float:
        where = self.task.data["seed"], self.task.data["index"]
        gold = self.task.gold["answer"]
        if self._source.name in _BY_TEXT:
            return float(answer.strip().casefold() == gold.casefold())
        if answer != gold and not self._source.may_score(answer):
            self._problem = "the scorer cannot safely evaluate this answer: it must be a value or a short formula"
            return 0.0
        try:
            return self._source.score(answer, *where)
        except TooMuchWork:
            self._problem = f"the scorer did not finish within {_MOST_CALLS:,} calls"
            return 0.0
        except Exception as error:
            # If the scorer can score the gold, the model's answer is unreadable.
            self._problem = f"the scorer could not read the answer: {describe(error)}"
            self._must_score_gold(self.task)
            return 0.0

    def _must_score_gold(self, task: Task) -> None:
        try:
            self._source.score(task.gold["answer"], task.data["seed"], task.data["index"])
        except Exception as error:
            raise BrokenTask(f"{task.id!r}: its own answer cannot be scored: {describe(error)}") from error

    def details(self) -> Mapping[str, Any]:
        """Return why an answer could not be scored."""
        return {"problem": self._problem} if self._problem else {}

    def solution(self, task: Task) -> Solution:
        """Give the generator's own answer. Raises `NoSolution` if its scorer does not accept it."""
        gold = task.gold["answer"]
        if not isinstance(gold, str):
            raise NoSolution(f"{self._source.name!r} gives no answer of its own")
        score = self._source.score(gold, task.data["seed"], task.data["index"])
        if score < SOLVED_AT:
            raise NoSolution(f"{self._source.name!r} scores its own answer {score:g}")
        yield ToolCall("answer", {"answer": gold}) if len(self.tools) else gold

    def caveats(self) -> tuple[Caveat, ...]:
        """Test whether items are reproducible, and whether the generator accepts its own answers."""
        task = self.tasks.get(TRAIN, 0)
        caveats: list[Caveat] = []
        again = Generator(self._source.name, self._source.config).item(task.data["seed"], task.data["index"])
        if again["question"] != task.prompt:
            caveats.append(Caveat("seed-honoured", "seeds are ignored: an item is another one when made again"))
        for index in range(4):
            try:
                next(self.solution(self.tasks.get(TRAIN, index)))
            except NoSolution as error:
                return (*caveats, Caveat("solution-solves", str(error)))
        return tuple(caveats)
