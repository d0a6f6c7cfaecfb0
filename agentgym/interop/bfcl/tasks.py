"""The multi-turn entries of BFCL as tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from agentgym.choices import one_of, some_of
from agentgym.foreign.errors import as_usage_error
from agentgym.interop.bfcl.package import data_file, documents_of
from agentgym.task import SHARES, TEST, TRAIN, VALIDATION, Task, TaskList, split_of

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
_TYPES = {
    "dict": "object",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "String": "string",
    "long": "integer",
}


class BFCLTasks(TaskList):
    """The multi-turn tasks of BFCL, from the installed package `bfcl-eval`.

    Args:
        categories: One or several of `CATEGORIES`; by default all.
        split_by: `"hash"`, or the single split for all tasks. Entries of different categories with the same number have
            the same story, so they are in the same split.
    """

    def __init__(self, categories: str | Sequence[str] | None = None, *, split_by: str = TEST):
        selected = some_of("category", categories, CATEGORIES)
        one_of("split_by", split_by, ("hash", TRAIN, VALIDATION, TEST))
        with as_usage_error("the data of bfcl-eval cannot be read; install it again"):
            tasks = [task for category in selected for task in _tasks(category, split_by)]
        super().__init__(tasks)


def _tasks(category: str, split_by: str) -> Iterator[Task]:
    name = f"BFCL_v4_multi_turn_{category}.json"
    gold = {row["id"]: row["ground_truth"] for row in _rows(f"possible_answer/{name}")}
    for row in _rows(name):
        number = row["id"].rpartition("_")[2]
        split = split_of(f"bfcl {number}", SHARES) if split_by == "hash" else split_by
        yield _task(row, gold[row["id"]], split, category)


def _task(row: Mapping[str, Any], gold: list[list[str]], split: str, category: str) -> Task:
    functions = [function for name in row["involved_classes"] for function in _functions(name)]
    held_out = {name for names in row.get("missed_function", {}).values() for name in names}
    first = [message["content"] for message in row["question"][0]]
    return Task(
        id=f"bfcl/{row['id']}",
        split=split,
        prompt="\n".join(first),
        difficulty=1 + CATEGORIES.index(category),
        data={
            "entry": row["id"],
            "classes": row["involved_classes"],
            "config": row["initial_config"],
            "turns": row["question"],
            "functions": [function for function in functions if function["name"] not in held_out],
            "held_out": {
                turn: [function for function in functions if function["name"] in names]
                for turn, names in row.get("missed_function", {}).items()
            },
        },
        gold={"calls": gold},
        tags=(category,),
    )


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data_file(name).splitlines() if line.strip()]


@cache
def _functions(name: str) -> list[dict[str, Any]]:
    """Return the functions of a class as schemas of tools."""
    documents = data_file(f"multi_turn_func_doc/{documents_of(name)}")
    functions = [json.loads(line) for line in documents.splitlines() if line.strip()]
    return [
        {
            "name": function["name"],
            "description": function["description"],
            "parameters": {**_schema(function["parameters"]), "additionalProperties": False},
        }
        for function in functions
    ]


def _schema(document: Any) -> Any:
    """Return a JSON schema: the package uses Python's names for types."""
    if isinstance(document, list):
        return [_schema(item) for item in document]
    if not isinstance(document, dict):
        return document
    schema = {key: _schema(value) for key, value in document.items()}
    kind = schema.get("type")
    if kind in ("any", "Any"):
        del schema["type"]
    elif isinstance(kind, str):
        schema["type"] = _TYPES.get(kind, kind)
    return schema
