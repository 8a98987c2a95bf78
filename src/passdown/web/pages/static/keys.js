// Everything by keyboard: `g` and a letter for views, j and k for rows, a letter for what a row offers.
import { element } from "./actions.js";
import { rows } from "./live.js";

let isGoing = false;

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.matches("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (press(event.key)) event.preventDefault();
  });
  document.addEventListener("click", (event) => event.target.closest("#help") && help());
}

function press(key) {
  if (isGoing) {
    isGoing = false;
    const target = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    target?.click();
    return Boolean(target);
  }
  if (key === "g") return (isGoing = true);
  if (key === "?") return help();
  if (key === "/") return focus(document.querySelector("[data-search]") ?? document.getElementById("quick"));
  if (key === "j" || key === "ArrowDown") return step(1);
  if (key === "k" || key === "ArrowUp") return step(-1);
  if (key === "Enter" || key === "o") return open(key);
  const row = document.activeElement?.closest?.("[data-row]");
  const wanted = `[data-key="${CSS.escape(key)}"]`;
  const button = row?.querySelector(wanted) ?? document.querySelector(`:not([data-row] *)${wanted}`);
  button?.click();
  return Boolean(button);
}

function focus(found) {
  found?.focus();
  found?.select?.();
  return Boolean(found);
}

function step(by) {
  const all = rows();
  const at = all.indexOf(document.activeElement?.closest?.("[data-row]"));
  if (!all.length) return false;
  return focus(all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]);
}

function open(key) {
  const row = document.activeElement;
  if (key === "Enter" && !row?.matches?.("[data-row]")) return false;
  const target = row?.closest?.("[data-row]")?.querySelector("a");
  target?.click();
  return Boolean(target);
}

function help() {
  const keys = [
    ["j, k", "next, previous row"], ["Enter", "open the row"], ["/", "search"], ["Esc", "leave a field, close this"],
    ...[...document.querySelectorAll("[data-go]")].map((each) => [`g ${each.dataset.go}`, each.firstChild.textContent]),
    ...new Map([...document.querySelectorAll("[data-key]")].map((each) => [each.dataset.key, each.firstChild.textContent])),
    ["?", "these keys"],
  ];
  const lines = keys.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]);
  const close = element("button", { className: "main" }, "Close");
  const form = element("form", { method: "dialog" }, element("h2", { id: "help-title" }, "Keys"), element("dl", { className: "keys" }, ...lines), close);
  const dialog = element("dialog", {}, form);
  dialog.setAttribute("aria-labelledby", "help-title");
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
  return true;
}
