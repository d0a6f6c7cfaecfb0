// Selects the first occurrence of a text in an element, preferably as whole words; returns whether there is one.
(element, text) => {
  if (element.matches("input, textarea")) {
    const at = element.value.indexOf(text);
    if (at >= 0) element.focus(), element.setSelectionRange(at, at + text.length);
    return at >= 0;
  }
  const words = text.trim().replace(/\s+/g, " ");
  const blockOf = (node) => {
    let above = node.parentElement;
    while (above.parentElement && getComputedStyle(above).display.startsWith("inline")) above = above.parentElement;
    return above;
  };
  let shown = "", block = null;
  const places = [];
  const add = (letter, node, offset) => {
    const folded = /\s/.test(letter) ? " " : letter;
    if (folded === " " && (!shown || shown.endsWith(" "))) return;
    shown += folded;
    places.push([node, offset]);
  };
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.checkVisibility({ checkVisibilityCSS: true })) continue;
    if (blockOf(node) !== block) add(" ", node, 0);
    block = blockOf(node);
    for (let offset = 0; offset < node.data.length; offset++) add(node.data[offset], node, offset);
  }
  const splits = (at) => /\w\w/.test(shown.slice(at - 1, at + 1)) && at > 0;
  let first = -1;
  for (let at = words ? shown.indexOf(words) : -1; at >= 0; at = shown.indexOf(words, at + 1)) {
    if (first < 0) first = at;
    if (splits(at) || splits(at + words.length)) continue;
    first = at;
    break;
  }
  if (first < 0) return false;
  const [start, from] = places[first];
  const [end, to] = places[first + words.length - 1];
  const host = start.parentElement.closest("[contenteditable]");
  if (host) host.focus();
  getSelection().setBaseAndExtent(start, from, end, to + 1);
  return true;
}
