"""`MiniWoBEnv`: a page of MiniWoB++, with the same tools as any other site; the page itself gives the reward.

The pages of the package `miniwob` are served unchanged. Their own clock is stopped; the number of turns is limited
instead.
"""

from __future__ import annotations

import json
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
from agentgym.envs.web.miniwob.solutions.registry import Sight, load_solutions
from agentgym.procedural import Wording
from agentgym.tasks.miniwob import MiniWoBTasks
from agentgym.tasks.web.sites import SiteServer

_ICONS = {
    ".alink": ("link", ""),
    ".trash": ("button", "Delete"),
    ".star": ("button", "Star"),
    "#open-search": ("button", "Search"),
    "#search-cancel, #close-email, #close-reply, #close-forward": ("button", "Back"),
    "#send-reply, #send-forward": ("button", "Send"),
    ".email-reply": ("button", "Reply"),
    ".email-forward": ("button", "Forward"),
    "input.forward-sender": ("textbox", "to"),
    "#area > textarea": ("textbox", "text area"),
    "#reply-text, #forward-text": ("textbox", "message"),
    ".controls .reply": ("button", "Reply"),
    ".controls .retweet": ("button", "Retweet"),
    ".controls .like": ("button", "Like"),
    ".controls span.share": ("button", "Share"),
    ".controls .more": ("button", "More"),
    ".controls li": ("button", ""),
    "#contact a": ("link", ""),
    ".food-order .add": ("button", "+"),
    ".food-order .remove": ("button", "-"),
    "[id^=ttt-]": ("button", "empty"),
    ".mark-x": ("button", "X"),
    ".mark-o": ("button", "O"),
    "#area .color, #area > span[data-color]": ("button", "$look"),
    "#area > span.selected": ("button", "$look, selected"),
    ".ui-slider-handle": ("slider", "handle $place"),
    ".ui-spinner-up": ("button", "Increase"),
    ".ui-spinner-down": ("button", "Decrease"),
    ".ui-datepicker-prev, .ui-datepicker-next": ("button", ""),
    ".ui-submit, #area .final": ("button", ""),
    ".filetree span.folder": ("button", "$text, folder"),
    ".filetree span.file": ("button", "$text, file"),
    ".ql-bold": ("button", "Bold"),
    ".ql-italic": ("button", "Italic"),
    ".ql-underline": ("button", "Underline"),
    "#area .half-hour": ("img", "$place"),
    ".ui-draggable, .ui-sortable-handle": ("img", "$text, $place"),
    "#area svg:not(#divWheel *) :is(circle, rect, ellipse, polygon, line, text)": ("img", "$shape"),
    "svg .plot-point": ("button", "$shape"),
}
"""Role and name by selector; an empty name means the element's own text. The script below fills in `$...`."""

_WORDS = """
window.sayInWords = () => {
  const place = (e) => {
    const b = e.getBoundingClientRect();
    const [width, height, x, y] = [b.width, b.height, b.x + b.width / 2, b.y + b.height / 2].map(Math.round);
    return `${width}x${height} at ${x},${y}`;
  };
  const colour = (e) => {
    const own = e.getAttribute('fill') || e.style.fill || getComputedStyle(e).fill;
    return own === 'none' || own === 'transparent' ? e.getAttribute('stroke') || 'empty' : own;
  };
  const words = {
    $look: (e) => e.style.backgroundColor,
    $place: place,
    $text: (e) => e.innerText.trim(),
    $shape: (e) => `${colour(e)} ${e.localName}${e.localName === 'text' ? ' ' + e.textContent : ''} ${place(e)}`,
  };
  for (const [selector, [role, name]] of Object.entries(RULES))
    for (const e of document.querySelectorAll(selector)) {
      const label = name.replace(/\\$[a-z]+/g, (word) => words[word](e));
      if (e.getAttribute('role') !== role) e.setAttribute('role', role);
      if (label && e.getAttribute('aria-label') !== label) e.setAttribute('aria-label', label);
    }
};
"""

_FETCH = """
window.fetched = [...document.styleSheets].flatMap((sheet) => {
  const hovered = [...sheet.cssRules].map((rule) => rule.cssText).filter((text) => text.includes(':hover'));
  const addresses = hovered.flatMap((text) => [...text.matchAll(/url\\("(.+?)"\\)/g)].map((match) => match[1]));
  return addresses.map((address) =>
    Object.assign(new Image(), { src: new URL(address, sheet.href || location.href).href }));
});
"""
"""Prefetches pictures that appear under the mouse: an icon without its picture has no size to click on."""

_AT_ONCE = """
if (!window.atOnce) {
  window.atOnce = new CSSStyleSheet();
  window.atOnce.replaceSync('* { transition-property: none !important }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, window.atOnce];
}
"""
"""Makes styles change at once: a view read between two frames would otherwise depend on their timing."""

_START = """
for (const id of ['reward-display', 'click-canvas']) {
  const shown = document.getElementById(id);
  if (shown) shown.style.display = 'none';
}
core.startEpisode = () => {};
core.EPISODE_MAX_TIME = 1e9;
if (document.activeElement) document.activeElement.blur();
if (location.href.includes('#')) history.replaceState(null, '', location.pathname);
Math.seedrandom(SEED);
core.startEpisodeReal();
"""

_TIMERS = "timers of an episode continue in the next"
_WIDGETS = "its widgets are created once and keep their state"

NEEDS_RELOAD = {
    "click-pie": _TIMERS,
    "click-pie-nodelay": _TIMERS,
    "hover-shape": _TIMERS,
    "simon-says": _TIMERS,
    "stock-market": _TIMERS,
    "drag-cube": _WIDGETS,
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
MORE_TURNS: Mapping[str, int] = dict.fromkeys(_LONG, 15)
"""Turn limits of pages whose tasks may need more than ten turns, such as twelve boxes to tick."""

SAY = "window.sayInWords()"
ASKED = "(asked => typeof asked === 'string' ? asked : asked.utterance)(core.getUtterance())"
STATE = f"({SAY}, [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL])"


def start_script(seed: int) -> str:
    """Return the script that starts an episode on a loaded page.

    It stops the page's episode clock, and hides the button that starts the next episode: an action of several events
    could click it.
    """
    return _WORDS.replace("RULES", json.dumps(_ICONS)) + _FETCH + _AT_ONCE + _START.replace("SEED", str(seed))


HOST = "miniwob.test"
_PLAIN_PROMPT = "Do what the page asks for. Act on elements by their refs."


class MiniWoBEnv(BrowserEnv):
    """Do the task of a page of MiniWoB++.

    Task: one of 128 pages, each a small form, list, mail client, drawing or game with content drawn from a seed.
    Tools: those of `WebEnv` except `answer`, `finish` and `goto`: the page decides when it is done.
    Observation: the instruction, the accessibility tree as text with refs, then its changes.
    Reward: `outcome` 1 if the page's own reward, without its time penalty, is above 0. Smaller parts for actions that
        succeed are paid only to solved episodes.
    Episode end: the page has decided, or 10 turns have passed; 15 where a page needs more (`choose-date`).
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
            max_turns = max_turns_on(tasks.pages) if max_turns is None else max_turns
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
        """Play a page with its scripted solution, which uses only the current view."""
        page, solutions = task.data["page"], load_solutions()
        if page not in solutions:
            raise UsageError(f"{page!r} has no scripted solution; those that have one: {', '.join(solutions)}")
        yield from solutions[page](Sight(self._instruction, lambda: self._seen))

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
