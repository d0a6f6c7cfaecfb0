"""Policies with weights, warm start and GRPO. Needs the `[train]` extra."""

import os

# Sampling alternates between the model and many short environment steps. Compute threads that spin while they wait
# starve the environments: on two busy cores, a training step then takes six times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Send nothing anywhere unless the user asks for it.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
