"""`documents_of`: the documents of the corpus that a task names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.base.errors import TaskError
from agentgym.tasks.search.world import DEFAULT_PASSAGES, SearchWorld, open_world
from agentgym.tools.index.base import Document


def world_of(corpus: Mapping[str, Any]) -> SearchWorld:
    """Return the world that a corpus names. Raises `TaskError` if it names none."""
    try:
        split, number = str(corpus["split"]), int(corpus["world"])
        return open_world(split, number, int(corpus.get("seed", 0)), int(corpus.get("passages", DEFAULT_PASSAGES)))
    except (KeyError, TypeError, ValueError) as error:
        raise TaskError(f"no world: {dict(corpus)!r} needs 'world' (a number) and 'split' (a name)") from error


def documents_of(corpus: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the documents of a corpus, such as `task.data["corpus"]`: a generated world, or a file of a data set."""
    if "file" in corpus:
        from agentgym.tasks.search.files import documents_of_file

        return documents_of_file(corpus)
    return iter(world_of(corpus).documents)
