# Left untyped on purpose: analysing the source of transformers takes pyright four times as long as all of agentgym.
from typing import Any

def __getattr__(name: str) -> Any: ...
