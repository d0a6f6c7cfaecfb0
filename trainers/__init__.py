"""Policies with weights, warm start and GRPO. Needs the `[train]` extra."""

import os

# Sampling alternates between the model and many short environment steps. Compute threads that spin while they wait take
# the cores from the environments: on two busy cores a training step takes six times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Nothing is sent anywhere unless asked for.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
