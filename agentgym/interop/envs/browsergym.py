"""`BrowserGymEnv`: a task of BrowserGym in a browser, with an accessibility tree as observation and one tool."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeVar, Unpack

import gymnasium

from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.foreign import as_usage_error
from agentgym.core.rewards import OUTCOME, Channel
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from agentgym.interop.packages import package
from agentgym.interop.wrapper import Caveat, Wrapped, seed_tasks

_core = package("browsergym.core")
_env = package("browsergym.core.env")
_actions = package("browsergym.core.action.highlevel")
_reading = package("browsergym.utils.obs")
_T = TypeVar("_T")
_PAGES = "MINIWOB_URL"


def _new_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "agentgym-browsergym")


_thread = _new_thread()
"""The thread for all of BrowserGym, which has one Playwright per process, bound to one thread."""


def _after_fork_in_child() -> None:
    """Reset the thread and its Playwright, which a forked process, such as a vector's worker, does not inherit."""
    global _thread
    _thread = _new_thread()
    _core._set_global_playwright(None)


os.register_at_fork(after_in_child=_after_fork_in_child)


class BrowserGymEnv(Wrapped):
    """Do a task of BrowserGym in a browser.

    Task: one seed of the BrowserGym task; no seed is in two splits.
    Tools: `act`, which takes an action in BrowserGym's syntax, such as `click('12')`.
    Observation: the accessibility tree of the page, and the error of the last action.
    Reward: `outcome` 1 if the task pays 1; `reward`, the task's reward.
    Episode end: the task is solved or over, or `max_turns` have passed.

    Args:
        name: The task without `browsergym/`, such as `miniwob.click-button`.
        browser: Path of a Chromium; by default that of Playwright.
        subsets: The subsets of BrowserGym's actions to allow.
    """

    channels = {
        OUTCOME: Channel("1 if the task pays 1"),
        "reward": Channel("what the task pays for the turn", -1.0, 1.0, per_turn=True),
    }
    reasons: ClassVar[Mapping[str, Ending]] = {"over": Ending.TERMINATED, "cut_off": Ending.TRUNCATED}
    states_turns = True
    max_turns = 15

    def __init__(
        self,
        name: str,
        *,
        browser: str | None = None,
        subsets: tuple[str, ...] | list[str] = ("bid",),
        **kwargs: Unpack[EnvArguments],
    ):
        self.name = name
        self._actions_set = _actions.HighLevelActionSet(list(subsets))
        with as_usage_error(f"the BrowserGym task {name!r} cannot be made"), _pages():
            self._inner = _make_env(name, browser, self._actions_set.to_python_code)
        actions = self._actions_set.describe(with_long_description=False, with_examples=True)
        super().__init__(tasks=seed_tasks(name, f"Call `act` in every turn.\n\n{actions}"), **kwargs)

    def start(self, task: Task) -> str:
        """Open the page of the task's seed."""
        observation, _ = self._in_thread("reset", lambda: self._inner.reset(seed=task.data["seed"]))
        return f"{observation['goal']}\n\n{task.prompt}\n\n{_page_text(observation)}"

    @tool(max_chars=20_000)
    def act(self, action: str) -> str:
        """Act on the page and see it again.

        Args:
            action: One action, such as `click('12')` or `fill('7', 'text')`.
        """
        observation, reward, terminated, truncated, _ = self._in_thread("step", lambda: self._inner.step(action))
        self.reward("reward", float(reward))
        if terminated or truncated:
            self.reward(OUTCOME, float(reward >= 1.0))
            self.finish(Reason.SOLVED if reward >= 1.0 else "over" if terminated else "cut_off")
        return _page_text(observation)

    def _in_thread(self, what: str, work: Callable[[], _T]) -> _T:
        """Run a part of BrowserGym in its thread, with its own random generators."""

        def run() -> _T:
            with self._foreign(f"{self.name}: {what}"), _pages(), _without_chat_window():
                return work()

        return _thread.submit(run).result()

    def release(self) -> None:
        """Close the browser."""
        self._in_thread("close", self._inner.close)

    def caveats(self) -> tuple[Caveat, ...]:
        """Return what the package lacks."""
        return (Caveat("solution-solves", "the package has no solutions that go by its actions"),)


class _Messages:
    """A replacement for BrowserGym's chat, without its window in a second browser."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.recording_start_time = None

    def add_message(self, role: str, msg: str) -> None:
        """Add a message, without the time of day."""
        self.messages.append({"role": role, "timestamp": 0.0, "message": msg})

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def _without_chat_window() -> Iterator[None]:
    window, _env.Chat = _env.Chat, _Messages
    try:
        yield
    finally:
        _env.Chat = window


@contextmanager
def _pages() -> Iterator[None]:
    """Set `MINIWOB_URL` to the pages in the package `miniwob`, unless it is already set."""
    spec = find_spec("miniwob")
    if _PAGES in os.environ or spec is None or spec.origin is None:
        yield
        return
    os.environ[_PAGES] = f"{(Path(spec.origin).parent / 'html' / 'miniwob').as_uri()}/"
    try:
        yield
    finally:
        del os.environ[_PAGES]


def _make_env(name: str, browser: str | None, mapping: Callable[[str], str]) -> Any:
    if name.startswith("miniwob."):
        package("browsergym.miniwob")
    launch_options = {} if browser is None else {"executable_path": browser}
    return gymnasium.make(
        f"browsergym/{name}",
        disable_env_checker=True,
        action_mapping=mapping,
        pw_chromium_kwargs=launch_options,
        pre_observation_delay=0.1,
    )


def _page_text(observation: Mapping[str, Any]) -> str:
    """Return the page as text."""
    tree = _reading.flatten_axtree_to_str(observation["axtree_object"])
    problem = observation.get("last_action_error")
    return f"Error of the last action: {problem}\n\n{tree}" if problem else tree
