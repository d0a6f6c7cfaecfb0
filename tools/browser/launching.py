"""Finds and starts a Chromium that reaches only the allowed hosts and dies with this process."""

from __future__ import annotations

import os
import shutil
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.browser.driver import LAUNCH_S, Driver
from agentgym.tools.browser.options import BrowserOptions

if TYPE_CHECKING:
    from playwright.async_api import Browser

VARIABLE = "AGENTGYM_CHROMIUM"
# The headless shell has no window management and takes half the time.
SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DEBIAN = Path("/usr/lib/chromium")
# One process for all sites of a context: fewer processes, and one virtual clock for a page and its frames.
ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-site-isolation-trials",
    "--disable-gpu",
    "--font-render-hinting=none",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--no-pings",
    # Chromium schedules frames by page time, which stands still between actions: where the policy or the machine is
    # slow, real time overtakes it, and a frame that is to be drawn at a point in real time never is. With this flag,
    # frames are drawn as soon as they are complete.
    "--run-all-compositor-stages-before-draw",
)


def find_executable(executable: str | None = None) -> str | None:
    """Return the browser to start: the argument, $AGENTGYM_CHROMIUM, or one on PATH; else `None`."""
    for named, where in ((executable, "executable"), (os.environ.get(VARIABLE), f"${VARIABLE}")):
        if named:
            if (path := shutil.which(named)) is None:
                raise UsageError(f"{where} is {named!r}, which is not an executable program")
            return _program(path)
    return next((_program(path) for path in map(shutil.which, NAMES) if path), None)


def _program(path: str) -> str:
    """Return the program behind a command: Debian's headless shell command is a script that would keep running."""
    return str(DEBIAN / SHELL) if path == f"/usr/bin/{SHELL}" and (DEBIAN / SHELL).exists() else path


def playwright_has_browser() -> bool:
    """Whether `playwright install chromium` has been run here."""
    place = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or os.path.expanduser("~/.cache/ms-playwright")
    return os.path.isdir(place) and any(name.startswith("chromium") for name in os.listdir(place))


def choose_executables(executable: str | None = None) -> list[str | None]:
    """Return the browsers to try, best first; `None` is the one that Playwright installed."""
    requested = executable or os.environ.get(VARIABLE)
    own = [None] if not requested and playwright_has_browser() else []
    path = find_executable(executable)
    if not own and path is None:
        raise UsageError(
            "no Chromium was found; run 'playwright install chromium', or install one (for example "
            f"'apt install {SHELL}') and give its path as BrowserOptions(executable=...) or in ${VARIABLE}"
        )
    return [*own, *([path] if path else [])]


async def launch(driver: Driver, options: BrowserOptions) -> Browser:
    """Start a headless Chromium, with its own sandbox where the machine allows it."""
    from playwright.async_api import Error

    problem = None
    sandboxes = (True, False) if os.geteuid() else (False,)
    for path, sandbox in product(choose_executables(options.executable), sandboxes):
        try:
            return await driver.playwright.chromium.launch(
                executable_path=path,
                args=[*ARGUMENTS, f"--host-resolver-rules={options.host_rules}"],
                chromium_sandbox=sandbox,
                timeout=LAUNCH_S * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            problem = error
    raise InfrastructureError(f"Chromium did not start: {str(problem)[:1500]}") from problem
