"""The vLLM side of `inprocess_sampler_vs_vllm`, run by the Python that has vLLM. Does not import agentgym.

Reads one JSON request per line from standard input and prints one JSON answer per line, after a line that names its
version.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM prints to standard output
    import vllm  # pyright: ignore[reportMissingImports]
    from vllm import LLM, SamplingParams  # pyright: ignore[reportMissingImports]

    setting: dict[str, Any] = json.loads(sys.stdin.readline())
    llm = LLM(
        model=setting["model"],
        dtype="bfloat16",
        max_model_len=setting["context"],
        max_num_seqs=setting["at_once"],
        disable_log_stats=True,
    )
    print(json.dumps({"version": vllm.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        llm.reset_prefix_cache()
        params = SamplingParams(
            temperature=1.0, max_tokens=request["tokens"], ignore_eos=True, detokenize=False, logprobs=0
        )
        prompts: list[list[int]] = request["prompts"]
        sampled, started, cpu = 0, time.perf_counter(), time.process_time()
        for turn in (*request["answers"], [[]] * len(prompts)):
            found = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
            said = [list(one.outputs[0].token_ids) for one in found]
            sampled += sum(map(len, said))
            prompts = [[*ids, *new, *answer] for ids, new, answer in zip(prompts, said, turn, strict=True)]
        taken = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
        print(json.dumps({"sampled": sampled, **taken}), file=answers, flush=True)


if __name__ == "__main__":
    main()
