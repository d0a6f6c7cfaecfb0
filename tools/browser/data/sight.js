// What the viewport shows of a page that is too large for a whole snapshot: at most 300 elements, in document order.
() => {
  const MOST = 300;
  const whole = "a, button, select, textarea, input, summary, [role]";
  const roles = { a: "link", button: "button", select: "combobox", textarea: "textbox", summary: "button", img: "img" };
  const inputs = {
    checkbox: "checkbox", radio: "radio", button: "button", submit: "button", range: "slider", number: "spinbutton",
  };
  const path = (element) => {
    const steps = [];
    for (let node = element; node.parentElement; node = node.parentElement) {
      steps.unshift(`/*[${Array.prototype.indexOf.call(node.parentElement.children, node) + 1}]`);
    }
    return "xpath=/html" + steps.join("");
  };
  const plain = (text) => text.slice(0, 2000).replace(/\s+/g, " ").trim().slice(0, 200);
  const described = (node) => {
    const tag = node.localName;
    const role = node.getAttribute("role") || (tag === "input" ? inputs[node.type] || "textbox" : roles[tag] || "text");
    const own = Array.from(node.childNodes).filter((child) => child.nodeType === Node.TEXT_NODE);
    const text = plain(role === "text" ? own.map((child) => child.data.slice(0, 2000)).join(" ") : node.textContent);
    const label = node.getAttribute("aria-label") || (node.labels && node.labels[0] && node.labels[0].textContent) || text;
    return {
      role, name: role === "text" ? "" : plain(label), value: role === "text" ? text : plain(String(node.value ?? "")),
      url: tag === "a" ? node.getAttribute("href") || "" : "", handle: path(node),
    };
  };
  const items = [];
  const visit = (parent, depth) => {
    for (const node of parent.children) {
      if (items.length >= MOST) return;
      const box = node.getBoundingClientRect();
      const empty = !box.width || !box.height;
      const outside = box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth;
      if (!empty && outside) continue;
      const kept = node.matches(whole);
      if (!empty && getComputedStyle(node).visibility === "visible") {
        const item = described(node);
        if (item.role !== "text" || item.value) items.push(item);
      }
      if (!kept && depth < 500) visit(node, depth + 1);
    }
  };
  if (document.body) visit(document.body, 0);
  return items;
}
