"""A typical server of the Search-R1 contract: a FastAPI endpoint with pydantic models."""

from __future__ import annotations

import socket
import sys
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from agentgym.tools.index import LocalIndex, open_index
from agentgym.tools.index.client import contents_of
from agentgym.tools.listening import listen, run_server


class QueryRequest(BaseModel):
    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def make_app(index: LocalIndex) -> FastAPI:
    app = FastAPI()

    @app.post("/retrieve")
    def retrieve(request: QueryRequest) -> dict[str, Any]:
        result = []
        for found in index.find_many(request.queries, request.topk or 3):
            documents = [{"id": each.id, "contents": contents_of(each.title, each.text)} for _, each in found]
            scored = [{"document": each, "score": score} for each, (score, _) in zip(documents, found, strict=True)]
            result.append(scored if request.return_scores else documents)
        return {"result": result}

    return app


def main() -> None:
    index = open_index(sys.argv[1])
    assert isinstance(index, LocalIndex)
    listening = listen("127.0.0.1", 0)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"Listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    run_server(make_app(index), listening)


if __name__ == "__main__":
    main()
