"""The vLLM side of `inprocess_sampler_vs_vllm`, run by the Python that has vLLM. Does not import agentgym."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from benchmarks._peers import answer


@cache
def engine(model: str, context: int, at_once: int) -> Any:
    from vllm import LLM  # pyright: ignore[reportMissingImports]

    return LLM(model=model, dtype="bfloat16", max_model_len=context, max_num_seqs=at_once, disable_log_stats=True)


def measure(request: dict[str, Any]) -> Mapping[str, Any]:
    """Sample the turns of conversations; return the time it took."""
    from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

    llm = engine(request["model"], request["context"], request["at_once"])
    llm.reset_prefix_cache()
    params = SamplingParams(
        temperature=1.0, max_tokens=request["tokens"], ignore_eos=True, detokenize=False, logprobs=0
    )
    prompts: list[list[int]] = request["prompts"]
    sampled, started, cpu = 0, time.perf_counter(), time.process_time()
    for turn in (*request["answers"], [[]] * len(prompts)):
        outputs = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
        new = [list(output.outputs[0].token_ids) for output in outputs]
        sampled += sum(map(len, new))
        prompts = [[*ids, *more, *reply] for ids, more, reply in zip(prompts, new, turn, strict=True)]
    return {
        "sampled": sampled,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
    }


if __name__ == "__main__":
    answer(measure)
