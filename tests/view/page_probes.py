"""Scripts that inspect a page in a browser: focus, names, handlers, colours and contrast."""

from __future__ import annotations

FOCUS = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
  return [one.tagName, outlined && box.bottom > 0 && box.top < innerHeight];
}"""
SHADES = """(canvas) =>
  new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"""
HANDLERS = """() => [...document.querySelectorAll('main *')]
  .filter((e) => [...e.attributes].some((one) => one.name.startsWith('on'))).length"""
NAMELESS = """() => {
  const named = (e) => e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length;
  const all = 'button, a, input, select, canvas, svg[role=img], [role=region]';
  return [...document.querySelectorAll(all)].filter((e) => !named(e)).map((e) => e.outerHTML);
}"""
COLOURS = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ratio = (x, y) => {
    const [high, low] = [x, y].map(luminance).sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if ((colour[3] ?? 1) === 1) return colour;
    }
  };
"""
PALE = (
    COLOURS
    + """
  // Marks that carry meaning need 3 to 1 against what is behind them.
  const fill = (e) => {
    const style = getComputedStyle(e);
    return rgb(e.matches('rect') ? style.fill : e.matches('path') ? style.stroke : style.backgroundColor);
  };
  const marks = '.plot rect, .whisker, .track .generation, .track .environment, .track .call-time, .range .dot';
  return [...document.querySelectorAll(marks)]
    .filter((e) => ratio(fill(e), behind(e.parentElement)) < 3)
    .map((e) => [e.outerHTML.slice(0, 80), ratio(fill(e), behind(e.parentElement))]);
}"""
)
FAINT = (
    COLOURS
    + """
  const contrast = (e) => ratio(rgb(getComputedStyle(e).color), behind(e));
  const says = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll('main *:not(svg *), header *')]
    .filter((e) => says(e) && e.checkVisibility() && !e.disabled && contrast(e) < 4.5)
    .map((e) => [contrast(e), e.outerHTML.slice(0, 80)]);
}"""
)
