"""A server with the part of vLLM's interface that asynchronous runs use, sampling with transformers.

Usage: python lora_server.py MODEL PORT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from aiohttp import web
from peft import PeftModel
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)


class LoraServer:
    """Serves a model and the adapters that are loaded while it runs."""

    def __init__(self, folder: str):
        self.folder = folder
        self.base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.adapters: dict[str, Any] = {}
        self.asked: list[str] = []

    async def models(self, request: web.Request) -> web.Response:
        entries = [{"id": self.folder, "root": self.folder, "max_model_len": 256}]
        entries += [{"id": name, "root": name, "parent": self.folder, "max_model_len": 256} for name in self.adapters]
        return web.json_response({"data": entries})

    async def info(self, request: web.Request) -> web.Response:
        lora, parallel = {"max_lora_rank": 8, "max_loras": 8}, {"data_parallel_size": 1}
        return web.json_response({"vllm_config": {"lora_config": lora, "parallel_config": parallel}})

    async def load(self, request: web.Request) -> web.Response:
        body = await request.json()
        name, path = body["lora_name"], body["lora_path"]
        if name in self.adapters:
            return web.Response(status=400, text=f"The lora adapter '{name}' has already been loaded.")
        if not Path(path).is_dir():
            return web.Response(status=404, text="no such folder")
        model = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)
        self.adapters[name] = PeftModel.from_pretrained(model, path).eval()
        return web.Response(text="ok")

    async def unload(self, request: web.Request) -> web.Response:
        self.adapters.pop((await request.json())["lora_name"], None)
        return web.Response(text="ok")

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        model = self.base if body["model"] == self.folder else self.adapters.get(body["model"])
        if model is None:
            return web.Response(status=404, text=f"The model `{body['model']}` does not exist.")
        self.asked.append(body["model"])
        return web.json_response({"choices": [sampled(model, body)]})

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()


@torch.inference_mode()
def sampled(model: Any, body: dict[str, Any]) -> dict[str, Any]:
    """Sample a turn, token by token."""
    draw = torch.Generator().manual_seed(body["seed"])
    ids, sampled_ids, logprobs = list(body["prompt"]), [], []
    while len(sampled_ids) < body["max_tokens"]:
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1] / (body["temperature"] or 1.0)
        chances = logits.log_softmax(-1)
        token = int(torch.multinomial(chances.exp(), 1, generator=draw))
        ids.append(token)
        sampled_ids.append(token)
        logprobs.append(float(chances[token]))
        if token in body["stop_token_ids"]:
            break
    finish = "stop" if sampled_ids[-1] in body["stop_token_ids"] else "length"
    top = [{f"token_id:{token}": value} for token, value in zip(sampled_ids, logprobs, strict=True)]
    return {"token_ids": sampled_ids, "finish_reason": finish,
            "logprobs": {"token_logprobs": logprobs, "top_logprobs": top}}  # fmt: skip


def main() -> None:
    server, application = LoraServer(sys.argv[1]), web.Application()
    application.router.add_get("/health", server.health)
    application.router.add_get("/v1/models", server.models)
    application.router.add_get("/server_info", server.info)
    application.router.add_post("/v1/completions", server.complete)
    application.router.add_post("/v1/load_lora_adapter", server.load)
    application.router.add_post("/v1/unload_lora_adapter", server.unload)
    web.run_app(application, host="127.0.0.1", port=int(sys.argv[2]), print=None, access_log=None)


if __name__ == "__main__":
    main()
