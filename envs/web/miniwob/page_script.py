"""The script that starts an episode on a page of MiniWoB++, and says in words what only pictures show."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym.base import yaml12

_ICONS: dict[str, list[str]] = yaml12.read(Path(__file__).parent / "data" / "icons.yaml", "the icons")
"""Role and name by selector."""
_TOGGLES = ".controls span, .star, .odd, .even, .ql-bold, .ql-italic, .ql-underline, #area > span[data-color]"
_ON = ".active, .clicked, .ql-active, .selected"
"""Selectors of buttons that stay pressed, and of those that are pressed."""

_WATCH = """
if (!window.strokes) {
  window.strokes = [];
  const pen = CanvasRenderingContext2D.prototype;
  const { lineTo, clearRect } = pen;
  pen.lineTo = function (x, y) {
    const at = this.getTransform().transformPoint(new DOMPoint(x, y));
    window.strokes.push(`${Math.round(at.x)},${Math.round(at.y)}`);
    return lineTo.call(this, x, y);
  };
  pen.clearRect = function (...box) {
    window.strokes = [];
    return clearRect.apply(this, box);
  };
  new MutationObserver((changes) => {
    for (const { target, oldValue } of changes)
      if (target.matches('.push') && !/push/.test(oldValue)) window.lit.push(target.getAttribute('aria-label'));
  }).observe(document.body, { subtree: true, attributes: true, attributeFilter: ['class'], attributeOldValue: true });
}
window.lit = [];
"""
"""Records what a view cannot show: the lines on a canvas, and the buttons that light up between two views."""

_WORDS = """
window.sayInWords = () => {
  const place = (e) => {
    const b = e.getBoundingClientRect();
    const [width, height, x, y] = [b.width, b.height, b.x + b.width / 2, b.y + b.height / 2].map(Math.round);
    return `${width}x${height} at ${x},${y}`;
  };
  const colour = (e) => {
    const own = e.getAttribute('fill') || e.style.fill || getComputedStyle(e).fill;
    return own === 'none' || own === 'transparent' ? `${e.getAttribute('stroke') || 'black'}-outlined` : own;
  };
  const words = {
    $look: (e) => e.style.backgroundColor,
    $place: place,
    $text: (e) => e.innerText.trim(),
    $drawing: () => `a line through ${window.strokes.join(' ')}`,
    $pattern: (e) => `boxes to tick: ${PATTERNS[e.parentElement.id.slice(1)].map((row) => row.join('')).join(' ')}`,
    $icon: (e) => `icon ${e.className.replace(/ui-icon-?/g, '').trim()}`,
    $lit: () => `lit up so far: ${window.lit.join(', ') || 'none'}`,
    $shape: (e) => `${colour(e)} ${e.localName}${e.localName === 'text' ? ' ' + e.textContent : ''} ${place(e)}`,
  };
  for (const [selector, [role, name]] of Object.entries(RULES))
    for (const e of document.querySelectorAll(selector)) {
      const label = name.replace(/\\$[a-z]+/g, (word) => words[word](e));
      e.removeAttribute('aria-hidden');
      if (e.getAttribute('role') !== role) e.setAttribute('role', role);
      if (label && e.getAttribute('aria-label') !== label) e.setAttribute('aria-label', label);
    }
  for (const e of document.querySelectorAll(TOGGLES)) {
    const on = String(e.matches(ON));
    if (e.getAttribute('aria-pressed') !== on) e.setAttribute('aria-pressed', on);
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
  window.atOnce.replaceSync('* { transition-property: none !important } .hour { white-space: nowrap }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, window.atOnce];
}
"""
"""Makes styles change at once: a view read between two frames would otherwise depend on their timing.

Keeps the hours of the calendar beside their labels: whether they fit depends on the installed fonts.
"""

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
window.sayInWords();
"""

SAY = "window.sayInWords()"
ASKED = "(asked => typeof asked === 'string' ? asked : asked.utterance)(core.getUtterance())"
STATE = f"({SAY}, [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL])"


def start_script(seed: int) -> str:
    """Return the script that starts an episode on a loaded page.

    It stops the page's episode clock, and hides the button that starts the next episode: an action of several events
    could click it.
    """
    words = _WORDS.replace("RULES", json.dumps(_ICONS))
    words = words.replace("TOGGLES", json.dumps(_TOGGLES)).replace("ON)", f"{json.dumps(_ON)})")
    return _WATCH + words + _FETCH + _AT_ONCE + _START.replace("SEED", str(seed))
