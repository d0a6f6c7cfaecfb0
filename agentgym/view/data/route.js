// The address of a page is in the part after '#': a path, and the filters that were chosen.

export function read() {
  const text = location.hash.replace(/^#/, "") || "/";
  const [path, query = ""] = text.split("?");
  return { path: path.startsWith("/") ? path : "/", wanted: Object.fromEntries(new URLSearchParams(query)) };
}

export function linkTo(path, wanted = {}) {
  const query = new URLSearchParams(
    Object.entries(wanted).filter(([, value]) => value !== "" && value !== undefined && value !== null),
  ).toString();
  return `#${path}${query ? `?${query}` : ""}`;
}

export function go(path, wanted = {}) {
  location.hash = linkTo(path, wanted);
}
