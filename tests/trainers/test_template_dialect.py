"""`--dialect template`: the chat template of a policy's model shows the tools and writes the calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import UsageError
from agentgym.cli.evaluate import EvaluationRequest, _arguments, run_evaluation
from agentgym.core.dialects import get_dialect
from agentgym.core.dialects.template import TemplateDialect
from agentgym.core.messages import ToolCall
from agentgym.rollout import Limits
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.policies import codec_of, default_dialect, describe_training, dialect_of, load_model, policy_of
from agentgym.trainers.template_dialect import name_of
from agentgym.trainers.tiny import TinyShape, tiny_model
from agentgym.trainers.trl_config import env_factory
from tests.chat_templates import tokenizer_of

pytestmark = [pytest.mark.real, pytest.mark.train]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a tiny random model with Qwen3's chat template."""
    return checkpoint_with("qwen3", tmp_path_factory.mktemp("qwen"))


def checkpoint_with(template: str, folder: Path) -> Path:
    tokenizer = tokenizer_of(template)
    tokenizer.pad_token = "<|endoftext|>"
    shape = TinyShape(vocabulary=320, hidden=32, layers=1, heads=2, feed_forward=32, context=4096)
    tiny_model(tokenizer, shape, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def request_of(policy: str, out: Path | None = None, **kwargs: Any) -> EvaluationRequest:
    limits = Limits(max_new_tokens=8, max_in_flight=2)
    return EvaluationRequest("guess", kwargs, policy, None, 1, 2, 0, 1.0, out, limits)


def config_of(model: Path | str, **settings: Any) -> TrainConfig:
    return TrainConfig(env="guess", model=str(model), context=4096, warm_start_steps=0, **settings)


def test_an_evaluation_leaves_tools_and_calls_to_the_template(qwen: Path, tmp_path: Path, capsys: Any):
    run_evaluation(request_of(str(qwen), tmp_path / "eval.jsonl", dialect="template"))
    capsys.readouterr()
    tokenizer = tokenizer_of("qwen3")
    for line in (tmp_path / "eval.jsonl").read_text().splitlines():
        played = json.loads(line)
        assert played["env_kwargs"]["dialect"] == f"template:{qwen}"
        prompt = tokenizer.decode(played["tokens"]["prompt_ids"])
        assert prompt.count("<tools>\n") == 1
        assert '"name": "guess"' in prompt
        assert "# Tools" not in json.dumps(played["opening"])


def test_a_run_leaves_tools_and_calls_to_the_template(qwen: Path):
    config = config_of(qwen, dialect="template", template_kwargs={"enable_thinking": False})
    name = f'template:{qwen}?{{"enable_thinking": false}}'
    assert dialect_of(config) == env_factory(config).kwargs["dialect"] == name
    env = env_factory(config)()
    assert isinstance(env.dialect, TemplateDialect)
    model, tokenizer = load_model(config)
    observation, info = env.reset(seed=0)
    codecs = [codec_of(config, model, tokenizer), policy_of(config, model, tokenizer, 2).codec]
    first, second = (codec.open(observation, info["tools"]) for codec in codecs)
    assert first == second
    text = tokenizer.decode(first)
    assert '"name": "guess"' in text
    assert text.endswith("<think>\n\n</think>\n\n")
    written = env.dialect.render("", [ToolCall("guess", {"number": 3})], env.tools)
    assert written.startswith("<tool_call>")


def test_a_model_that_was_trained_with_its_template_is_evaluated_with_it(qwen: Path, tmp_path: Path):
    describe_training(tmp_path, "guess", {"dialect": name_of("elsewhere", {"a": 1}), "max_turns": 3})
    assert json.loads((tmp_path / "agentgym.json").read_text())["env_kwargs"]["dialect"] == "template"
    assert default_dialect(str(tmp_path)) == "template"
    assert dialect_of(config_of(tmp_path)) == f"template:{tmp_path}"
    assert _arguments(request_of(str(tmp_path))) == {"dialect": f"template:{tmp_path}", "max_turns": 3}


def test_a_template_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path):
    with pytest.raises(UsageError, match=r"needs a policy with one .*leave its dialect at native"):
        get_dialect("template")
    with pytest.raises(UsageError, match="cannot be created"):
        get_dialect(f"template:{tmp_path}")
    with pytest.raises(UsageError, match=r"'.*' writes no tool calls .*such as hermes"):
        get_dialect(name_of(str(checkpoint_with("phi3", tmp_path))))
