// Where to click on an element and what stands in the way, in the coordinates of the element's own frame.
// Scrolls it into view, unless `still`.
(element, still) => {
  const describe = (node) => {
    const text = (node.getAttribute("aria-label") || node.innerText || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return node.localName + (node.id ? "#" + node.id : "") + (text ? ` "${text}"` : "");
  };
  const tag = element.localName;
  const place = element.getBoundingClientRect();
  const facts = {
    tag, type: tag === "input" ? element.type : "", checked: !!element.checked, problem: "", cover: "",
    editable: element.isContentEditable || tag === "textarea" || tag === "select" || tag === "input",
    tickable: /^(checkbox|radio)$/.test(element.type) || element.hasAttribute("aria-checked"), readonly: !!element.readOnly, options: [], x: 0, y: 0,
    left: place.left, top: place.top, right: place.right, bottom: place.bottom, away: "",
  };
  // The direction to scroll in until the middle of the element appears.
  const [x, y] = [(place.left + place.right) / 2, (place.top + place.bottom) / 2];
  for (let node = element.parentElement; node && !facts.away; node = node.parentElement) {
    const whole = node === document.documentElement;
    if (!whole && getComputedStyle(node).overflow === "visible") continue;
    const shown = whole ? { left: 0, top: 0, right: innerWidth, bottom: innerHeight } : node.getBoundingClientRect();
    facts.away = y < shown.top ? "up" : y >= shown.bottom ? "down" : x < shown.left ? "left" : x >= shown.right ? "right" : "";
  }
  if (tag !== "input" && element.hasAttribute("aria-checked")) facts.checked = element.getAttribute("aria-checked") === "true";
  if (tag === "select") facts.options = Array.from(element.options, (o) => [o.label.trim().replace(/\s+/g, " "), o.value, o.disabled]);
  if (!element.isConnected) return { ...facts, problem: "gone" };
  if (element.matches(":disabled") || element.closest("[aria-disabled=true]")) return { ...facts, problem: "disabled" };

  const within = (outer, inner) => {
    for (let node = inner; node; node = node.parentNode || node.host) if (node === outer) return true;
    return false;
  };
  const SHARES = [-0.45, -0.3, -0.15, 0, 0.15, 0.3, 0.45];
  const parts = (at) => SHARES.flatMap((down) => SHARES.map((right) => ({ x: at.x + right * at.width, y: at.y + down * at.height })));
  const point = (target) => {
    if (getComputedStyle(target).visibility !== "visible") return null;
    const inside = () => {
      for (const r of target.getClientRects()) {
        const left = Math.max(r.left, 0), right = Math.min(r.right, innerWidth);
        const top = Math.max(r.top, 0), bottom = Math.min(r.bottom, innerHeight);
        if (right - left >= 1 && bottom - top >= 1) return { x: (left + right) / 2, y: (top + bottom) / 2, width: right - left, height: bottom - top, whole: right - left >= r.width - 1 && bottom - top >= Math.min(r.height, innerHeight) - 1 };
      }
      return null;
    };
    const hit = (at) => at && target.getRootNode().elementFromPoint(at.x, at.y);
    let at = inside();
    let top = hit(at);
    if (!still && (!at || !at.whole || !top || !within(target, top))) {
      target.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      at = inside();
      top = hit(at);
    }
    if (at && !(top && within(target, top))) {
      const free = parts(at).find((part) => { const other = hit(part); return other && within(target, other); });
      if (free) return { ...free, top: hit(free) };
    }
    return at && { ...at, top };
  };
  const labels = Array.from(element.labels || []);
  let cover = "", seen = false;
  for (const target of [element, ...labels]) {
    const at = point(target);
    if (!at) continue;
    seen = true;
    const own = at.top && (within(target, at.top) || labels.some((label) => within(label, at.top)));
    if (own) {
      const box = element.getBoundingClientRect();
      return { ...facts, x: at.x, y: at.y, left: box.left, top: box.top };
    }
    cover ||= at.top ? describe(at.top) : "";
  }
  return { ...facts, problem: seen ? "covered" : "hidden", cover };
}
