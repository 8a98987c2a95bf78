// Buttons that call an operation of the API, after asking for what it needs.
import { leave } from "./live.js";

let after = () => {};

export function startActions(refresh) {
  after = refresh;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-path]");
    if (button) run(button);
    if (event.target.closest("#sign-out")) send("POST", "/sign-out", {}).then(leave);
  });
}

// Call what a button stands for; `known` are fields that needn't be asked for.
export async function run(button, known = {}) {
  const { method, path, body, fields, title } = button.dataset;
  const call = async (given, tell) => {
    const answer = await send(method, path, { ...JSON.parse(body), ...given }, tell);
    if (answer) { say(`${title}: done`); after(); }
    return answer;
  };
  if (fields) ask(title, JSON.parse(fields), known, call);
  else await call({});
}

// Call an operation; a repeat with the same key changes nothing twice.
export async function send(method, path, body, tell = () => {}) {
  const refuse = (text) => { tell(text); say(text, true); return null; };
  const form = document.querySelector("meta[name=passdown-form]").content;
  const headers = { "X-Passdown-Form": form };
  if (method !== "GET") Object.assign(headers, { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() });
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: method === "GET" ? undefined : JSON.stringify(body) });
  } catch {
    return refuse("The server doesn't answer.");
  }
  const found = answer.status === 204 ? {} : await answer.json();
  if (answer.ok) return found;
  const problems = (found.problems ?? []).map((each) => `${each.path} ${each.message}`.trim());
  return refuse([found.detail, ...problems, found.next_step].filter(Boolean).join(" · "));
}

export function say(text, isError = false) {
  const line = element("p", { className: isError ? "error" : "" }, text);
  document.getElementById("messages").append(line);
  setTimeout(() => line.remove(), isError ? 12000 : 4000);
}

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.map((child) => (typeof child === "string" ? visible(child) : child)));
  return made;
}

// Invisible and bidirectional control characters as escapes, as the server writes them.
export const visible = (text) => text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);

// Ask for some fields in a dialog, which stays open with what was typed until the call succeeds.
function ask(title, fields, known, call) {
  const inputs = fields.map((field) => {
    const input = field.choices.length
      ? element("select", {}, ...field.choices.map((each) => element("option", { value: each }, each)))
      : element("textarea", { rows: field.name.endsWith("agent") || field.name === "holder" ? 1 : 3 });
    return Object.assign(input, { name: field.name, required: field.is_needed, value: known[field.name] ?? input.value });
  });
  const labels = fields.map((field, at) => element("label", {}, field.label, inputs[at]));
  const yes = element("button", { value: "yes", className: "main" }, "Do it");
  const no = element("button", { value: "", type: "button", className: "act" }, "Cancel");
  const refused = element("p", { className: "bad", role: "alert" });
  const form = element("form", {}, element("h2", { id: "ask-title" }, title), ...labels, refused, element("p", { className: "buttons" }, yes, no));
  const dialog = element("dialog", {}, form);
  dialog.setAttribute("aria-labelledby", "ask-title");
  no.onclick = () => dialog.close();
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.target.rows === 1)) {
      event.preventDefault();
      form.requestSubmit(yes);
    }
  });
  const back = document.activeElement;
  document.body.append(dialog);
  dialog.showModal();
  inputs[0]?.focus();
  form.onsubmit = async (event) => {
    event.preventDefault();
    if (yes.disabled) return;
    yes.disabled = true;
    const values = Object.fromEntries(inputs.map((each) => [each.name, each.value.trim()]));
    if (await call(values, (text) => { refused.textContent = text; })) dialog.close();
    yes.disabled = false;
  };
  dialog.onclose = () => {
    dialog.remove();
    back?.focus?.();
  };
}
