"""Policies with weights, warm start and GRPO. Needs the `[train]` extra."""
