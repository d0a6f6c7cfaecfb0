// Runs before any script of a page: its randomness is seeded, its clocks agree, carets and scrolling do not move.
((seed) => {
  let a = seed >>> 0;
  const next = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  for (const letter of location.origin + location.pathname) a = (Math.imul(a, 31) + letter.charCodeAt(0)) >>> 0;
  const fill = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(next() * 256);
    return array;
  };
  Math.random = next;
  if (self.Crypto) {
    Crypto.prototype.getRandomValues = fill;
    if (Crypto.prototype.randomUUID)
      Crypto.prototype.randomUUID = () => {
        const bytes = fill(new Uint8Array(16));
        bytes[6] = (bytes[6] & 15) | 64;
        bytes[8] = (bytes[8] & 63) | 128;
        const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
        return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
      };
  }

  // Frames are drawn in real time; callbacks for them come with the page's own time instead.
  const { setTimeout, clearTimeout, Date } = self;
  const now = Date.now.bind(Date);
  const loaded = now();
  performance.now = () => now() - loaded;
  self.requestAnimationFrame = (callback) => setTimeout(() => callback(performance.now()), 16);
  self.cancelAnimationFrame = clearTimeout.bind(self);
  self.requestIdleCallback = (callback) =>
    setTimeout(() => callback({ didTimeout: false, timeRemaining: () => 50 }), 1);
  self.cancelIdleCallback = clearTimeout.bind(self);

  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`*, *::before, *::after { caret-color: transparent !important; scroll-behavior: auto !important; }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

  // A window without an opener would be a process with a clock of its own; a flood of windows opens a few.
  const open = self.open;
  let windows = 0;
  self.open = (url, target, features) => {
    if (windows >= 10) return null;
    windows += 1;
    const kept = String(features ?? "").split(",").filter((part) => !/^\s*no(opener|referrer)/i.test(part)).join(",");
    return open.call(self, url, target, kept);
  };
  addEventListener("click", (event) => {
    const link = event.composedPath().find((item) => item instanceof HTMLAnchorElement || item instanceof HTMLAreaElement);
    if (link && link.target && link.target !== "_self") link.rel = "opener";
  }, true);
})(SEED);
