// Keep the page current: a stream says that something was recorded, the page is fetched again, and
// only what differs is changed, so that focus, scrolling and what is being typed stay.

const PAUSE_MS = 700;
let source, timer, isBusy, isDue, isGone, hasShown, shown = () => {};

export function startLive(afterRefresh) {
  shown = afterRefresh;
  open();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else { open(); refresh(); }
  });
  setInterval(() => document.querySelectorAll("time[datetime]").forEach(age), 20000);
}

// How long ago a time was: a page is open all day.
function age(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [10, "s"]].find(([each]) => seconds >= each) ?? [];
  time.textContent = size ? `${Math.floor(seconds / (size === 10 ? 1 : size))} ${unit} ago` : "just now";
}

function open() {
  source?.close();
  source = new EventSource("/live");
  let last = "";
  source.onopen = () => state("live");
  source.onmessage = (event) => {
    if (last !== event.data) schedule();
    last = event.data;
  };
  source.onerror = () => {
    state("reconnecting");
    // The browser tries again by itself, unless it was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || open(), 2000);
  };
}

// To the page for signing in, once, whoever finds first that the session is over.
export function leave() {
  if (isGone) return;
  isGone = true;
  source?.close();
  location.assign("/sign-in");
}

function state(text) {
  const live = document.getElementById("live");
  if (live && live.textContent !== text) live.textContent = text;
  if (live) live.dataset.state = text;
}

function schedule() {
  clearTimeout(timer);
  timer = setTimeout(refresh, 60);
}

// Fetch this page again and change what differs. The parser of XMLHttpRequest runs no script.
export async function refresh() {
  if (isGone) return;
  if (isBusy) { isDue = true; return; }
  isBusy = true;
  try {
    const url = location.href;
    const fresh = await page(url);
    if (url !== location.href) { isDue = true; return; } // something was searched for meanwhile
    if (fresh?.getElementById("sign-in")) leave();
    if (!fresh) {
      state("out of date");
      timer = setTimeout(refresh, 3000);
    }
    if (fresh?.getElementById("content")) {
      if (source?.readyState === EventSource.OPEN) state("live");
      const before = rows();
      const at = before.indexOf(document.activeElement?.closest?.("[data-row]"));
      morph(document.getElementById("content"), fresh.getElementById("content"));
      if (fresh.title) document.title = fresh.title;
      if (at >= 0 && !document.activeElement?.closest?.("[data-row]")) {
        const left = rows();
        left[Math.min(at, left.length - 1)]?.focus();
      }
      shown(hasShown);
      hasShown = true;
    }
  } finally {
    setTimeout(() => { isBusy = false; if (isDue) { isDue = false; refresh(); } }, PAUSE_MS);
  }
}

export const rows = () => [...document.querySelectorAll("[data-row]")];

export function page(url) {
  return new Promise((done) => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.responseType = "document";
    request.setRequestHeader("Accept", "text/html");
    request.onload = () => done(request.status < 400 ? request.response : null);
    request.onerror = () => done(null);
    request.send();
  });
}

// Make `old` like `fresh`. Elements with the same id are the same; `data-keep` is left alone.
export function morph(old, fresh) {
  if (old.dataset && "keep" in old.dataset) return;
  attributes(old, fresh);
  const kept = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let at = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    const same = node.id ? kept.get(node.id) : at && !at.id && alike(at, node) ? at : null;
    if (!same) {
      old.insertBefore(document.importNode(node, true), at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else old.insertBefore(same, at);
    if (node.nodeType === Node.ELEMENT_NODE) morph(same, node);
    else if (same.nodeValue !== node.nodeValue) same.nodeValue = node.nodeValue;
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const alike = (one, other) => one.nodeName === other.nodeName && !other.id;

function attributes(old, fresh) {
  // No page has styles in its markup: they are what a script here has set, such as a zoom.
  const own = old.localName === "details" || old.localName === "dialog" ? ["open", "style"] : ["style"];
  for (const { name, value } of [...fresh.attributes])
    if (old.getAttribute(name) !== value && !own.includes(name)) old.setAttribute(name, value);
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !own.includes(name)) old.removeAttribute(name);
}
