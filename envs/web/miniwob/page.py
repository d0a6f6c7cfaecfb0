"""Scripts for the pages of MiniWoB++: they start an episode, describe pictures in words and report the end.

Most of these pages were made for pictures. Here their icons, colours and shapes get names and roles, so that the
accessibility tree describes them; the pages are otherwise unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

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
