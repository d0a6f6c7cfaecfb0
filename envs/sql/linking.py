"""Schema linking: whether a query reads the tables and columns that the gold query reads (Reasoning-SQL, 2025)."""

from __future__ import annotations

from agentgym.envs.sql.references import Schema, references


def linking(predicted: str, gold: str, engine: str, schema: Schema) -> float:
    """Return the Jaccard index of the tables and columns that two queries read; 0 if neither reads any."""
    if predicted == gold:
        return 1.0  # Common for trained policies, and parsing takes longer than running the query.
    mine, theirs = references(predicted, engine, schema), references(gold, engine, schema)
    union = mine | theirs
    return len(mine & theirs) / len(union) if union else 0.0
