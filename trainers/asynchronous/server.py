"""A vLLM server for a run on this machine, restarted if it dies."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from agentgym.base.errors import InfrastructureError
from agentgym.trainers.asynchronous.playing import OF_THE_TRAINER
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.vllm import on_cpu

_log = logging.getLogger(__name__)

_START_S = 900.0
_GPU_SHARE = 0.9
"""Share of its own GPU's memory that a server may use."""
_LOOK_EVERY_S = 0.5
_STOP_S = 30.0
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks that vLLM has buffers for."""
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs Python with the arguments that follow, and ends it when the trainer dies."""
_ENVIRONMENT = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_SERVER_DEV_MODE": "1"}
_ON_CPU = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "TORCHDYNAMO_DISABLE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


def server_settings(config: TrainConfig, model_config: Any) -> dict[str, Any]:
    """Return the settings of a server for a run, by the names of vLLM's options.

    Args:
        config: The run.
        model_config: The configuration of its model (transformers).
    """
    dtype = "bfloat16" if config.bf16 else "float32"
    at_once = min(config.max_in_flight, 256)
    settings: dict[str, Any] = {
        "dtype": dtype,
        "max_model_len": config.context,
        "max_num_seqs": at_once,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "seed": config.seed,
    }
    if config.lora_rank:
        settings |= {
            "enable_lora": True,
            "max_lora_rank": next((rank for rank in _RANKS if rank >= config.lora_rank), config.lora_rank),
            # TRL loads a version before it unloads the oldest that may still be in use.
            "max_loras": config.max_staleness + 2,
        }
    else:
        settings["weight_transfer_config"] = '{"backend":"nccl"}'
    if not on_cpu.is_needed():
        return settings | {"gpu_memory_utilization": config.vllm_memory or _GPU_SHARE}
    share = config.vllm_memory or on_cpu.SHARE
    return settings | on_cpu.settings(model_config, dtype=dtype, context=config.context, at_once=at_once, share=share)


def as_options(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as options of vLLM's command."""
    options: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        options += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return options


class OwnServer:
    """A vLLM server as a child process. Use it as a context manager, or close it.

    Args:
        model: Folder or name of the model.
        settings: Options of vLLM (`server_settings`).
        log: File for its output.
    """

    def __init__(self, model: str, settings: Mapping[str, Any], log: Path):
        self._log = log
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._command = [
            *(sys.executable, "-c", _DIES_WITH_PARENT, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", model, "--host", "127.0.0.1", "--port", str(port), *as_options(settings)),
        ]
        self._is_closing, self._lock = threading.Event(), threading.Lock()
        self._process = self._begin()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until it answers, and watch it from then on. Raises `InfrastructureError` if it does not start."""
        ends = time.monotonic() + _START_S
        while time.monotonic() < ends:
            if self._process.poll() is not None:
                raise self._failure()
            try:
                with urlopen(f"{self.url}/health", timeout=5):
                    break
            except (URLError, OSError):
                time.sleep(_LOOK_EVERY_S)
        else:
            raise self._failure()
        threading.Thread(target=self._watch, name="vllm-server", daemon=True).start()

    def _failure(self) -> InfrastructureError:
        lines = self._log.read_text(errors="replace").splitlines()
        why = next((line for line in reversed(lines) if "Error" in line), "it says no reason")
        return InfrastructureError(f"the vLLM server did not start: {why[-300:]} (see {self._log})")

    def close(self) -> None:
        """End it. Safe to call twice."""
        with self._lock:
            self._is_closing.set()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._end_rest()

    def _begin(self) -> subprocess.Popen[bytes]:
        more = _ENVIRONMENT | (_ON_CPU if on_cpu.is_needed() else {})
        environment = more | {name: value for name, value in os.environ.items() if name not in OF_THE_TRAINER}
        with self._log.open("ab") as out:
            return subprocess.Popen(
                self._command,
                env=environment,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a group of its own (`_end_rest`)
            )

    def _end_rest(self) -> None:
        """End the processes that a dead server has left; they would keep its memory."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        """Restart it whenever it has died, in a thread of its own."""
        while not self._is_closing.wait(_LOOK_EVERY_S):
            with self._lock:
                if self._process.poll() is not None and not self._is_closing.is_set():
                    _log.warning("the vLLM server died (exit code %s) and is restarted", self._process.returncode)
                    self._end_rest()
                    self._process = self._begin()
