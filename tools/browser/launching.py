"""Finding a Chromium and starting it so that it reaches nothing but what it is told, and dies with this process."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.browser.driver import LAUNCH_S, Driver
from agentgym.tools.browser.options import BrowserOptions

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

VARIABLE = "AGENTGYM_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# One process for all sites of a context: fewer processes, and one virtual clock for a page and its frames.
ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-site-isolation-trials",
    "--disable-gpu",
    "--font-render-hinting=none",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--no-pings",
)


def find_executable(given: str | None = None) -> str | None:
    """Return the browser to start: the argument, $AGENTGYM_CHROMIUM, or one on PATH; `None` if there is none."""
    for named, where in ((given, "executable"), (os.environ.get(VARIABLE), f"${VARIABLE}")):
        if named:
            if shutil.which(named) is None:
                raise UsageError(f"{where} is {named!r}, which is no program that can be started")
            return shutil.which(named)
    return next((path for path in map(shutil.which, NAMES) if path), None)


def playwright_has_browser() -> bool:
    """Whether `playwright install chromium` was run here."""
    place = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or os.path.expanduser("~/.cache/ms-playwright")
    return os.path.isdir(place) and any(name.startswith("chromium-") for name in os.listdir(place))


def choose_executable(playwright: Playwright, given: str | None = None) -> str:
    """Return the browser to start, Playwright's own before one on PATH."""
    if not given and not os.environ.get(VARIABLE) and os.path.exists(playwright.chromium.executable_path):
        return playwright.chromium.executable_path
    path = find_executable(given)
    if path is None:
        raise UsageError(
            "no Chromium was found; run 'playwright install chromium', or install one (for example "
            f"'apt install chromium') and give its path as BrowserOptions(executable=...) or in ${VARIABLE}"
        )
    return path


async def launch(driver: Driver, options: BrowserOptions) -> Browser:
    """Start one headless Chromium, in its own sandbox where the machine lets it."""
    from playwright.async_api import Error

    path = choose_executable(driver.playwright, options.executable)
    problem = None
    for sandbox in (True, False) if os.geteuid() else (False,):
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
    raise InfrastructureError(f"Chromium ({path}) did not start: {str(problem)[:1500]}") from problem
