"""`MiniWoBEnv`: a page of MiniWoB++, with the same tools as any other site; the page itself gives the reward.

The pages of the package `miniwob` are served unchanged. Their own clock is stopped; the number of turns is limited
instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from agentgym.base.choices import one_of
from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.messages import Pictured, ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import Task, TaskSource
from agentgym.envs.web.acting import as_infrastructure_failure
from agentgym.envs.web.base import BrowserEnv
from agentgym.envs.web.miniwob.page_script import ASKED, SAY, STATE, start_script
from agentgym.envs.web.miniwob.solutions.registry import Sight, load_solutions
from agentgym.procedural import Wording
from agentgym.tasks.miniwob import MiniWoBTasks
from agentgym.tasks.web.sites import SiteServer

_TIMERS = "timers of an episode continue in the next"
_WIDGETS = "its widgets are created once and keep their state"

NEEDS_RELOAD = {
    "click-pie": _TIMERS,
    "simon-says": _TIMERS,
    "stock-market": _TIMERS,
    "drag-items": _WIDGETS,
    "drag-items-grid": _WIDGETS,
    "drag-sort-numbers": _WIDGETS,
    "form-sequence": _WIDGETS,
    "use-slider": _WIDGETS,
    "use-slider-2": _WIDGETS,
}
"""Pages to reload for every episode, and why."""

NEEDS_CONTEXT = {"terminal": "it shows the date, which advances from episode to episode"}
"""Pages that need a fresh browser context for every episode, and why."""

_OPENS = "a list that opens under the mouse selects the item where the last episode left it"
NEEDS_MOUSE = dict.fromkeys(
    (
        "book-flight",
        "book-flight-nodelay",
        "click-menu",
        "click-menu-2",
        "use-autocomplete",
        "use-autocomplete-nodelay",
    ),
    _OPENS,
)
"""Pages that need the mouse at the same place at the start of every episode, and why."""

_LONG = ("book-flight", "book-flight-nodelay", "choose-date", "choose-date-nodelay", "click-checkboxes-large")
_LONG += ("hot-cold", "stock-market", "use-slider", "use-spinner")
MORE_TURNS: Mapping[str, int] = {**dict.fromkeys(_LONG, 15), "number-checkboxes": 20}
"""Turn limits of pages whose tasks may need more than ten turns, such as twelve boxes to tick."""

HOST = "miniwob.test"
_PLAIN_PROMPT = "Do what the page asks for. Act on elements by their refs."


class MiniWoBEnv(BrowserEnv):
    """Do the task of a page of MiniWoB++.

    Task: one of 124 pages, each a small form, list, mail client, drawing or game with content drawn from a seed.
    Tools: those of `WebEnv` except `answer`, `finish` and `goto`: the page decides when it is done. Besides,
        `click_at`, `hover_at` and `drag` for points of drawings, and `select_text`.
    Observation: the instruction, the accessibility tree as text with refs, then its changes. What only a picture shows,
        such as colours, sizes and places of shapes, is said in words.
    Reward: `outcome` 1 if the page's own reward, without its time penalty, is above 0. Smaller parts for actions that
        succeed are paid only to solved episodes.
    Episode end: the page has decided, or 10 turns have passed; more where a page needs them (`choose-date`: 15), and
        twice as many with `actions="pixels"`, where typing takes a click first.
    Needs: the extra `[web]` and a Chromium.
    Version history: v0, first version.

    Args:
        page: Name or names of pages; all if not given. `agentgym/miniwob-click-button-v0` is one page.
        task_seed: Other seeds give other tasks.
        wording: `"natural"`, or `"plain"`: a system message of few words, for very small models.
        tasks: A custom task source, instead of the choices above.
        max_turns: Turns after which an episode is truncated; as many as the pages need if not given.
        kwargs: Arguments of `BrowserEnv` and `agentgym.Env`.
    """

    channels = {
        OUTCOME: Channel("1 if the page's reward is above 0"),
        "format": Channel("1 if the action parsed and its arguments were valid", per_turn=True, cheap=True),
        "valid": Channel("1 if the action succeeded on the page", per_turn=True, cheap=True),
        "finished": Channel("1 if the page has decided", cheap=True),
        "raw": Channel("the page's own reward, without its time penalty", low=-1.0),
    }
    scheme = Scheme(
        weights={OUTCOME: 1.0, "format": 0.05, "valid": 0.05},
        gates=(Gate(on=OUTCOME, at_least=1.0, opens=("format", "valid")),),
        averaged=frozenset({"format", "valid"}),
    )
    system_prompt = (
        "Do what the page asks for. Act on elements by their refs. The page judges what you do and ends the episode."
    )
    states_turns = True
    example_call = ToolCall("click", {"ref": "e12"})
    max_turns = 10
    endings = ()
    needed = ("click_at", "hover_at", "drag", "select_text")
    unneeded = ("goto", "back", "tab", "dialog", "upload")

    harmless_arguments = BrowserEnv.harmless_arguments | {
        "page",
        "task_seed",
        "wording",
    }

    def __init__(
        self,
        *,
        page: str | Sequence[str] | None = None,
        task_seed: int | None = None,
        tasks: TaskSource | None = None,
        viewport: tuple[int, int] = (320, 320),
        wording: Wording = "natural",
        max_turns: int | None = None,
        **kwargs: Any,
    ):
        self.wording: Wording = one_of("wording", wording, get_args(Wording))
        if wording == "plain":
            self.system_prompt, self.states_turns, self.example_call = _PLAIN_PROMPT, False, None
        if tasks is not None and (page is not None or task_seed is not None):
            raise UsageError("tasks=... was given, so page and task_seed cannot be chosen too; give one or the other")
        if tasks is None:
            tasks = MiniWoBTasks(page, task_seed or 0)
            if max_turns is None:
                max_turns = max_turns_on(tasks.pages) * (2 if kwargs.get("actions") == "pixels" else 1)
        super().__init__(tasks=tasks, viewport=viewport, max_turns=max_turns, **kwargs)
        self._instruction = ""
        self._loaded = ""

    @classmethod
    def packages(cls, kwargs: Mapping[str, Any]) -> Mapping[str, str]:
        """See `Env.packages`."""
        return {**super().packages(kwargs), "miniwob": "web"}

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return tasks on all pages."""
        return MiniWoBTasks()

    def start(self, task: Task) -> str | Pictured:
        """Load the page, or restart it, and return its instruction."""
        try:
            self._begin(task)
        except InfrastructureError:
            # The browser may have died since the last episode: retry once with a new one.
            self._leave()
            self._begin(task)
        return self._opening(self._instruction)

    def after_action(self) -> None:
        """End the episode if the page has decided."""
        done, raw = self._page.read(STATE)
        if done:
            self._decide(float(raw))

    def solution(self, task: Task) -> Solution:
        """Play a page with its scripted solution."""
        play = load_solutions()[task.data["page"]]
        yield from self._in_tools(play(Sight(self._instruction, lambda: self._seen, self._page.read)))

    def _begin(self, task: Task) -> None:
        page = task.data["page"]
        if self._session is None or page in NEEDS_CONTEXT:
            server = SiteServer.shared()
            server.serve_folder(HOST, pages_folder())
            self._open(allowed=(f"http://{HOST}",), resolve={"*.test": f"127.0.0.1:{server.port}"})
            self._loaded = ""
        if page != self._loaded or page in NEEDS_RELOAD:
            self._loaded = ""
            with as_infrastructure_failure():
                self._page.goto(f"http://{HOST}/miniwob/{page}.html")
        with as_infrastructure_failure():
            self._page.renumber()
            if page in NEEDS_MOUSE:
                self._page.move_to(0, 0)
            self._page.run(start_script(task.data["seed"]))
            self._page.read(SAY)
            self._instruction = str(self._page.read(ASKED))
        self._loaded = page

    def _decide(self, raw: float) -> None:
        right = raw > 0
        self.reward("raw", raw)
        self.reward("finished", 1.0)
        self.reward(OUTCOME, float(right))
        self.finish(Reason.SOLVED if right else Reason.ANSWERED)

    @property
    def _seen(self) -> Any:
        if self._view is None:
            raise InfrastructureError("the page is gone; reset the environment")
        return self._view


def max_turns_on(pages: Sequence[str]) -> int:
    """Return the turns that an episode on any of these pages may take."""
    return max(MORE_TURNS.get(page, MiniWoBEnv.max_turns) for page in pages)


def pages_folder() -> Path:
    """Return the folder with the pages of MiniWoB++. Raises `MissingExtra`."""
    require("miniwob", "web")
    spec = find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise UsageError("the package miniwob has no files; install it again: pip install 'agentgym-suite[web]'")
    return Path(spec.origin).parent / "html"
