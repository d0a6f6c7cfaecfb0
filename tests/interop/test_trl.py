"""Our environments as TRL's: the tools it reads off the class, its groups, and what becomes of failures."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from agentgym.base.errors import BrokenTask, InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.registry import load_class, make
from agentgym.core.task import Task, TaskList
from agentgym.core.toolset import tool
from agentgym.envs.catalog import ENVIRONMENTS
from agentgym.interop.trainers.trl import BROKEN, TooManyFailures, environment_class, episode_of, rows, unless_failed
from tests.chat_templates import tokenizer_of
from tests.interop import probe_env
from tests.interop.guarantees import Guarantee, Moves, Seen, hold, said_next
from tests.interop.peers import by_task, conversation, in_hermes, run_page
from tests.interop.probe_env import PROBE
from tests.rows import each_row

SHAKY = "tests.interop.test_trl:ShakyEnv"


class ShakyEnv(Env):
    """Fails `breaks` times."""

    breaks = 0
    max_turns = 5

    @classmethod
    def default_tasks(cls) -> TaskList:
        return TaskList([Task("shaky/0", "train", "Count."), Task("shaky/1", "train", "Count up.")])

    @tool
    def add(self) -> str:
        """Count one more."""
        self.grade()
        return "counted"

    @tool
    def done(self) -> str:
        """End."""
        self.reward("outcome", 1.0)
        self.finish(Reason.SOLVED)
        return "done"

    def grade(self) -> None:
        if type(self).breaks:
            type(self).breaks -= 1
            raise InfrastructureError("the counter broke")


@pytest.fixture
def shaky() -> Iterator[type[ShakyEnv]]:
    kind: Any = load_class(SHAKY)  # pytest has its own copy of this module
    kind.breaks = 0
    yield kind
    kind.breaks = 0


def begun(env: str = SHAKY, index: int = 0, **arguments: Any) -> Any:
    environment = environment_class(env, **arguments)()
    environment.reset(**rows(env, count=index + 1)[index])
    return environment


@pytest.mark.train
@each_row("env_id", [name for name in ENVIRONMENTS if "miniwob" not in name])
def test_trl_reads_the_schemas_that_the_tools_have(env_id: str):
    transformers = pytest.importorskip("transformers", reason="needs the [train] extra")
    environment, instance = environment_class(env_id)(), make(env_id)
    for schema in instance.tools.schemas:
        function = schema["function"]
        read = transformers.utils.get_json_schema(getattr(environment, function["name"]))["function"]
        ours, theirs = function["parameters"], read["parameters"]
        assert (read["name"], read["description"]) == (function["name"], function["description"])
        assert (theirs["properties"].keys(), theirs.get("required")) == (
            ours["properties"].keys(),
            ours.get("required"),
        )
        for name, part in theirs["properties"].items():
            assert part["description"] == ours["properties"][name]["description"]
            assert part.get("type") == ours["properties"][name].get("type", part.get("type"))
    instance.close()


def test_an_episode_earns_what_its_turns_pay_even_if_the_policy_only_stops():
    environment = begun(PROBE)
    environment.pay(amount=0.25)
    environment.pay(amount=0.5)
    assert environment.get_reward() == environment.get_reward() == 0.75
    assert episode_of(environment).turn_rewards == [0.25, 0.5, 0.0]
    assert episode_of(environment).ending == "gave_up"


def test_a_failed_episode_has_no_reward_and_is_hidden_from_the_policy(shaky: type[ShakyEnv]):
    environment = begun(attempts=2)
    shaky.breaks = 2
    assert environment.add() == environment.done() == BROKEN
    assert environment.get_reward() is None
    assert unless_failed(lambda environments, **_: [5.0])(environments=[environment]) == [None]
    environment.reset(**rows(SHAKY, count=1)[0])
    environment.done()
    assert environment.get_reward() == 1.0
    assert unless_failed(lambda environments, **_: [5.0])(environments=[environment]) == [5.0]


class UngradableEnv(ShakyEnv):
    """Its gold is wrong, which shows in a tool or at the end."""

    @tool
    def check(self) -> str:
        """Look at the gold."""
        raise BrokenTask("the gold is wrong")

    def grade(self) -> None:
        raise BrokenTask("the gold is wrong")


@each_row("name", ["check", "done", "get_reward"])
def test_a_broken_task_has_no_reward_wherever_it_shows_and_ends_no_training(name: str):
    environment = begun("tests.interop.test_trl:UngradableEnv")
    assert getattr(environment, name)() in (BROKEN, None)
    assert environment.get_reward() is None


def test_too_many_failures_end_the_training_with_a_base_exception(shaky: type[ShakyEnv]):
    environment = begun(attempts=1, stop_after=2)
    row = rows(SHAKY, count=1)[0]
    shaky.breaks = 2
    environment.add()
    environment.reset(**row)
    with pytest.raises(TooManyFailures, match=r"2 episodes of .* failed in a row"):
        environment.add()
    assert not issubclass(TooManyFailures, Exception)


class Driver:
    """Plays in TRL's own trainer, whose model is a script."""

    adapter = package = "trl"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        members = max(2, attempts)
        inputs = [row for index in range(len(episodes)) for row in [opened(index, seed + index)] * members]
        trainer = scripted(lambda messages: said_next(messages, episodes, seed), members, inputs)
        output = trainer._generate_and_score_completions(inputs)
        ids = [
            [*prompt, *completion]
            for prompt, completion in zip(output["prompt_ids"], output["completion_ids"], strict=True)
        ]
        texts = trainer.processing_class.batch_decode(ids)
        rewards = trainer.rewards[:, 0].tolist()
        results = [as_seen(text, reward) for text, reward in zip(texts, rewards, strict=True)]
        return [members_of[:attempts] for members_of in by_task(results, members)]


def opened(index: int, seed: int) -> dict[str, Any]:
    """A row of `ProbeEnv` whose opening comes from `reset`, since one of its episodes cannot begin."""
    return {"prompt": [{"role": "user", "content": ""}], "task_id": f"probe/train/{index}", "seed": seed}


def as_seen(text: str, reward: float) -> Seen:
    read = [message["content"] for message in conversation(text) if message["role"] == "user"]
    return Seen(read, error="left out") if math.isnan(reward) else Seen(read, reward=reward)


def scripted(say: Callable[[list[Any]], ToolCall | None], members: int, inputs: list[Any], **options: Any) -> Any:
    """TRL's trainer with a scripted model."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

    from agentgym.trainers.tiny import TinyShape, tiny_model

    tokenizer = tokenizer_of("qwen2_5")
    tokenizer.pad_token = "<|endoftext|>"

    class Scripted(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
            texts = [self._said(tokenizer.decode(ids)) for ids in prompt_ids]
            return [[*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id] for text in texts], None

        def _said(self, text: str) -> str:
            move = say(conversation(text)) if re.search(r"\b\d{9}\b", text) else ToolCall("roll")
            return in_hermes(move)

        def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
            self.rewards = super()._calculate_rewards(*args, **kwargs)
            return self.rewards

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=len(inputs),
            num_generations=members,
            max_completion_length=1500,
            max_tool_calling_iterations=8,
            report_to="none",
            use_cpu=True,
            bf16=False,
            **options,
        )
        return Scripted(
            tiny_model(tokenizer, TinyShape(hidden=32, layers=1, feed_forward=32, context=4096), 0),
            args=config,
            train_dataset=Dataset.from_list(inputs),
            processing_class=tokenizer,
            environment_factory=environment_class(PROBE),
        )


@pytest.mark.train
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("trl", reason="needs the [train] extra")
    monkeypatch.setattr(probe_env, "MEETING_S", 0.05)
    hold(Driver(), guarantee)


@pytest.mark.train
def test_the_page_s_examples_run():
    pytest.importorskip("datasets", reason="needs the [train] extra")
    run_page("trl.md")


@pytest.mark.train
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")
def test_trl_leaves_a_failed_episode_out_of_its_group_s_mean_and_out_of_the_loss():
    pytest.importorskip("trl", reason="needs the [train] extra")
    first = iter([ToolCall("collapse"), *(ToolCall("pay", {"amount": amount}) for amount in (0.25, 0.5, 0.75))])
    inputs = [opened(0, 0)] * 4
    trainer = scripted(lambda _: next(first, None), 4, inputs, scale_rewards="none")
    advantages = trainer._generate_and_score_completions(inputs)["advantages"].tolist()
    assert math.isnan(trainer.rewards[0, 0])
    assert advantages == [0.0, -0.25, 0.0, 0.25]
