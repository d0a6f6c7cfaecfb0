"""Sampling with many conversations at once gives what each would have got alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from peft import LoraConfig, get_peft_model

from agentgym.core.policy import Generation, StreamingPolicy
from agentgym.trainers.cache import bytes_per_position
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.transformers_policy import TransformersPolicy
from tests.rows import each_row
from tests.trainers.talking import ANSWER, PROMPTS, ids, policy, talk, talks
from tests.waiting import HANG_S

pytestmark = [pytest.mark.real, pytest.mark.train]


def watch(policy: TransformersPolicy) -> list[int]:
    """Note how many conversations take part in each forward pass."""
    sizes: list[int] = []
    advance = policy._advance

    def counted(requests: Any) -> None:
        sizes.append(len(requests))
        advance(requests)

    policy._advance = counted  # type: ignore[method-assign]
    return sizes


def test_a_turn_does_not_depend_on_others_in_its_batch(model: Any, tokenizer: Any):
    """Two slots for six conversations: they wait for each other, and lose what was computed for them in between."""
    together = talks(policy(model, tokenizer, slots=64))
    cramped = talks(policy(model, tokenizer, slots=2))
    assert ids(cramped) == ids(together)
    for i, prompt in enumerate(PROMPTS):
        alone = asyncio.run(talk(policy(model, tokenizer), f"s{i}", prompt))
        assert [turn.ids for turn in alone] == ids(together)[i]


@each_row("temperature", [1.0, 0.5])
def test_logprobs_are_those_of_a_plain_forward_pass(model: Any, tokenizer: Any, temperature: float):
    model.eval()
    conversations = talks(policy(model, tokenizer, slots=3, temperature=temperature))
    for prompt, conversation in zip(PROMPTS, conversations, strict=True):
        history = list(prompt)
        for number, turn in enumerate(conversation):
            assert 1 <= len(turn.ids) == len(turn.logprobs) <= 5 + number
            assert turn.finish == ("stop" if turn.ids[-1] == tokenizer.eos_token_id else "length")
            assert tokenizer.eos_token_id not in turn.ids[:-1]
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([history + turn.ids])).logits[0]
            plain = torch.log_softmax(logits.float() / temperature, dim=-1)[len(history) - 1 : -1]
            expected = plain.gather(1, torch.tensor(turn.ids)[:, None])[:, 0].tolist()
            assert turn.logprobs == pytest.approx(expected, abs=1e-4)
            history += turn.ids + ANSWER


def test_new_weights_wait_for_a_pass_of_a_turn_that_was_given_up(model: Any, tokenizer: Any):
    sampler, began, may_end = policy(model, tokenizer), threading.Event(), threading.Event()
    advance = sampler._advance

    def held(requests: Any) -> None:
        began.set()
        may_end.wait(HANG_S)
        advance(requests)

    sampler._advance = held  # type: ignore[method-assign]

    async def give_up() -> None:
        turn = asyncio.ensure_future(sampler.generate(PROMPTS[0], 4, "s"))
        await asyncio.to_thread(began.wait)
        turn.cancel()
        await asyncio.wait([turn])
        updating = threading.Thread(target=sampler.updated, args=(1,))
        updating.start()
        updating.join(0.05)
        assert updating.is_alive()
        may_end.set()
        await asyncio.to_thread(updating.join)

    asyncio.run(give_up())
    assert sampler.version == 1


def test_the_seed_and_the_weights_version_change_what_is_drawn(model: Any, tokenizer: Any):
    first, again, other = (ids(talks(policy(model, tokenizer, seed=seed))) for seed in (1, 1, 2))
    assert first == again != other
    later = policy(model, tokenizer, seed=1)
    later.updated(3)
    conversations = talks(later)
    assert ids(conversations) != first
    assert all(turn.version == 3 for conversation in conversations for turn in conversation)


def test_sampling_follows_the_distribution(model: Any, tokenizer: Any):
    """Over many sessions the first token has the frequencies that the model gives it."""
    sampler = policy(model, tokenizer, slots=256)

    async def first_tokens() -> list[int]:
        turns = [sampler.generate(PROMPTS[0], 1, f"s{i}") for i in range(2000)]
        return [turn.ids[0] for turn in await asyncio.gather(*turns)]

    frequencies = torch.bincount(torch.tensor(asyncio.run(first_tokens())), minlength=model.config.vocab_size) / 2000
    with torch.inference_mode():
        expected = torch.softmax(model(input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1], dim=-1)
    assert expected.max() > 0.02
    assert (frequencies - expected).abs().max() < 0.02


def test_new_weights_are_used_at_once(model: Any, tokenizer: Any):
    sampler = policy(model, tokenizer, temperature=0.0)
    before = ids(talks(sampler))
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(model.model.embed_tokens.weight.roll(1, 0))
    sampler.updated(1)
    changed = ids(talks(sampler))
    assert changed != before
    assert changed == ids(talks(policy(model, tokenizer, temperature=0.0)))


LONG = [[(7 * i) % 300 + 6 for i in range(80)] + [20 + n] * 3 for n in range(6)]
"""Conversations with the same long beginning."""


def test_a_common_beginning_is_computed_by_one_of_the_conversations(model: Any, tokenizer: Any):
    sampler = policy(model, tokenizer, context=256)
    token_counts: list[int] = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: token_counts.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    together = talks(sampler, LONG)
    assert token_counts[:2] == [83, 5 * 3]
    for i, prompt in enumerate(LONG):
        alone = asyncio.run(talk(policy(model, tokenizer, context=256), f"s{i}", prompt))
        assert [turn.ids for turn in alone] == ids(together)[i]


def test_with_little_memory_conversations_wait_for_each_other(model: Any, tokenizer: Any):
    """Long ones leave room for fewer, and those under way lose their slots without a change to what is sampled."""
    prompts = [*PROMPTS, [50 + n for n in range(100)]]
    plenty = talks(policy(model, tokenizer, context=512), prompts)
    bytes_each = bytes_per_position(model.config, model.dtype)
    for room in (1, 300, 600):
        scarce = TransformersPolicy(
            model, ChatCodec(tokenizer), end_ids=[tokenizer.eos_token_id], context=512, cache_bytes=room * bytes_each
        )
        sizes = watch(scarce)
        assert ids(talks(scarce, prompts)) == ids(plenty)
        assert max(sizes) <= max(1, room // 64)


def test_adapters_are_sampled_from_as_part_of_the_weights(model: Any, tokenizer: Any):
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5, generator=torch.Generator().manual_seed(len(name)))
    before = {name: weight.clone() for name, weight in adapted.state_dict().items()}
    sampler = policy(adapted, tokenizer, temperature=0.0)
    [turn] = asyncio.run(talk(sampler, "s", PROMPTS[1], turns=1))
    adapted.eval()
    with torch.inference_mode():
        logits = adapted(input_ids=torch.tensor([PROMPTS[1] + turn.ids])).logits[0, len(PROMPTS[1]) - 1 : -1]
    expected = torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(turn.ids)[:, None])[:, 0]
    assert turn.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
    assert all(torch.equal(weight, before[name]) for name, weight in adapted.state_dict().items())
    assert sampler._merged is not None
    assert sampler._merged._weights


def test_turns_are_sampled_side_by_side(model: Any, tokenizer: Any):
    """As many passes as the longest conversation has tokens, not as all of them have together."""
    sampler = policy(model, tokenizer, slots=8)
    sizes = watch(sampler)
    conversations = talks(sampler)
    lengths = [sum(len(turn.ids) for turn in conversation) for conversation in conversations]
    assert sum(sizes) == sum(lengths)
    assert len(sizes) <= max(lengths) + 2 * len(PROMPTS)
    assert max(sizes) == len(PROMPTS)


def test_cancelled_turns_free_their_slots(model: Any, tokenizer: Any):
    """Running and waiting turns are given up again and again; what comes later is as if they had never been."""
    sampler = policy(model, tokenizer, slots=2)

    async def give_up(name: str) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await sampler.generate([7] * 100, 10_000, name)
        sampler.release(name)

    async def together() -> list[list[Generation]]:
        sampler._model.config.max_position_embeddings = 10_000
        for _ in range(3):
            await asyncio.gather(*(give_up(f"g{i}") for i in range(5)))
        return await asyncio.gather(*(talk(sampler, f"s{i}", prompt) for i, prompt in enumerate(PROMPTS)))

    after = asyncio.run(asyncio.wait_for(together(), 60))
    assert ids(after) == ids(talks(policy(model, tokenizer, slots=2)))
    assert sampler._seating.taken == 0
    assert len(sampler._seating) <= 2


def test_tokens_are_told_as_they_are_sampled(model: Any, tokenizer: Any):
    sampler = policy(model, tokenizer)
    reported: list[list[int]] = []

    async def turn() -> Generation:
        return await sampler.generate(PROMPTS[0], 6, "s0", on_tokens=lambda new: reported.append(list(new)))

    generation = asyncio.run(turn())
    assert isinstance(sampler, StreamingPolicy)
    assert reported == [[token] for token in generation.ids]
    assert len(reported) > 1


class Breaking(torch.nn.Module):
    """A model that breaks after some passes."""

    def __init__(self, model: Any, passes: int, error: Exception):
        super().__init__()
        self.inner, self.passes, self.error = model, passes, error
        self.config, self.device, self.dtype = model.config, model.device, model.dtype

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.passes -= 1
        if self.passes < 0:
            raise self.error
        return self.inner(*args, **kwargs)


@each_row(
    "error, message",
    [
        (RuntimeError("NaN in the weights"), "NaN in the weights"),
        (torch.OutOfMemoryError("CUDA out of memory."), "Lower max_in_flight or context"),
    ],
)
def test_an_error_of_the_model_reaches_everyone_who_waits(model: Any, tokenizer: Any, error: Exception, message: str):
    sampler = policy(Breaking(model, 2, error), tokenizer, slots=2)

    async def together() -> list[Any]:
        turns = (talk(sampler, f"s{i}", prompt) for i, prompt in enumerate(PROMPTS))
        return await asyncio.gather(*turns, return_exceptions=True)

    errors = asyncio.run(asyncio.wait_for(together(), 60))
    assert [message in str(error) for error in errors] == [True] * len(PROMPTS)


def test_a_turn_over_its_time_is_cut_off_and_keeps_its_tokens(model: Any, tokenizer: Any):
    endless = TransformersPolicy(model, ChatCodec(tokenizer), end_ids=[], context=512)

    async def both() -> tuple[Generation, Generation]:
        late = endless.generate(PROMPTS[0], 400, "late", timeout_s=0.02)
        return await asyncio.gather(late, endless.generate(PROMPTS[1], 3, "other"))

    cut, other = asyncio.run(both())
    assert (cut.finish, other.finish, len(other.ids)) == ("time", "length", 3)
    assert 0 < len(cut.ids) == len(cut.logprobs) < 400
    whole = asyncio.run(
        TransformersPolicy(model, ChatCodec(tokenizer), end_ids=[], context=512).generate(
            PROMPTS[0], len(cut.ids), "late"
        )
    )
    assert whole.ids == cut.ids
