"""Records the requests of a session, as the HAR document that other tools read."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from agentgym.base.errors import UsageError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext


def check_can_record(addresses: re.Pattern[str] | None) -> None:
    """Raise `UsageError` if requests are to be recorded and this Playwright cannot record an open context."""
    if addresses is not None and Version(version("playwright")) < Version("1.60"):
        raise UsageError("recording requests needs Playwright 1.60 or later; run: pip install 'playwright>=1.60'")


class Recording:
    """The requests of a context, written by the browser's driver when the recording stops.

    Args:
        context: The context, before its first request.
        addresses: Matches the addresses of requests to record; `None` records nothing.
    """

    def __init__(self, context: BrowserContext, addresses: re.Pattern[str] | None):
        self._context, self._addresses = context, addresses
        self._folder: Path | None = None

    def check(self) -> None:
        """Raise `UsageError` if nothing is being recorded."""
        if self._folder is None:
            raise UsageError("this session records no requests, or no longer; open it with SessionOptions(record=...)")

    async def start(self) -> None:
        """Start recording if requested."""
        if self._addresses is None:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="agentgym-har-"))
        await self._context.tracing.start_har(self._file, content="embed", mode="full", url_filter=self._addresses)

    async def stop(self) -> dict[str, Any]:
        """Stop recording and return the HAR document."""
        await self._context.tracing.stop_har()
        document = json.loads(self._file.read_text(encoding="utf-8"))
        self.discard()
        return document

    def discard(self) -> None:
        """Remove the recording."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _file(self) -> Path:
        assert self._folder is not None
        return self._folder / "network.har"
