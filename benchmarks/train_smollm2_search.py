"""SmolLM2-135M, a pretrained model, on two CPU cores: gain and time of `agentgym train --recipe search-smollm2`.

The time includes the warm start and both evaluations. An interrupted benchmark goes on where it was (`--folder`).
"""

from __future__ import annotations

from benchmarks._training import smollm2

if __name__ == "__main__":
    smollm2("search", __doc__)
