// What single views do: parts that are loaded later, search as one types, the budget of a brief.
import { page, morph, rows } from "./live.js";
import { element, run, say, visible } from "./actions.js";
import { startGraph } from "./graph.js";

const begun = new WeakSet();

// Called at the start and after each refresh; an element is only begun once. Checks and the brief
// are made again when anything was recorded.
export function startViews(hasNews = true) {
  if (hasNews) document.querySelectorAll("[data-load]").forEach((part) => load(part));
  if (hasNews) document.querySelectorAll("[data-brief]").forEach((form) => begun.has(form) && form.dispatchEvent(new Event("input")));
  each("[data-brief]", brief);
  each("form[data-typed]", typed);
  each("form[data-auto]", (form) => form.addEventListener("change", (event) => event.target.matches("select, [list]") && form.requestSubmit()));
  if (hasNews) document.querySelectorAll("canvas").forEach((graph) => begun.has(graph) && graph.dispatchEvent(new Event("reload")));
  each("canvas", startGraph);
  tally();
}

function each(selector, start) {
  for (const found of document.querySelectorAll(selector)) {
    if (begun.has(found)) continue;
    begun.add(found);
    start(found);
  }
}

// A part that a check fills comes from a page of its own, which answers at once with the last result
// and says when there may be a newer one.
const loads = new Map();

async function load(part, isAsked = false) {
  const mine = { timer: 0 };
  clearTimeout(loads.get(part.id)?.timer);
  loads.set(part.id, mine);
  const fresh = await page(part.dataset.load + (isAsked === true ? "?again=1" : ""));
  if (loads.get(part.id) !== mine) return;
  for (const found of fresh?.querySelectorAll("[data-part]") ?? []) {
    const old = document.getElementById(found.id);
    if (!old) continue;
    delete old.dataset.keep;
    if (old.dataset.load) found.dataset.load = old.dataset.load;
    morph(old, found);
    old.dataset.keep = "";
  }
  if (!fresh && !part.querySelector(".bad.finding"))
    part.prepend(element("p", { className: "bad finding" }, "This check failed; it is repeated."));
  tally();
  const seconds = fresh ? Number(part.dataset.again ?? 0) : 3;
  if (seconds) mine.timer = setTimeout(() => load(part), seconds * 1000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-check]");
  if (!button) return;
  button.disabled = true;
  load(document.getElementById(button.dataset.check), true);
});

// How many rows wait for a person, those of the checks too.
function tally() {
  const shown = document.getElementById("count");
  if (!shown) return;
  const count = rows().length;
  shown.textContent = `${count} ${count === 1 ? "entry" : "entries"}`;
  document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
  const nothing = document.getElementById("nothing");
  if (nothing) nothing.hidden = count > 0;
}

// What a brief of some size would say: the API makes it, without recording that it was given.
function brief(form) {
  const [text, count, rest] = ["text", "count", "rest"].map((name) => document.getElementById(`brief-${name}`));
  let asked = 0;
  const show = async () => {
    const { agent, budget } = form.elements;
    const mine = ++asked;
    form.querySelector("output").textContent = budget.value;
    const query = new URLSearchParams({ agent: agent.value, budget: budget.value, names: "commands" });
    const answers = await Promise.all([fetch(`${form.dataset.brief}/brief?${query}&record=false`), fetch(`${form.dataset.brief}/left-out?${query}`)]);
    const [made, left] = await Promise.all(answers.map((each) => each.json()));
    if (mine !== asked) return;
    text.textContent = visible(answers[0].ok ? made.text : made.detail);
    count.textContent = answers[0].ok ? `${made.tokens} of ${budget.value} tokens, ${made.shown.length} items, ${left.items?.length ?? 0} left out` : "";
    rest.replaceChildren(...(left.items?.length ? [element("h3", {}, "Left out, in the order in which a larger budget shows them"), element("p", {}, ...left.items.slice(0, 60).flatMap((each) => [element("a", { href: `/items/${encodeURIComponent(each)}` }, each), " "]), left.items.length > 60 ? `and ${left.items.length - 60} more` : "")] : []));
  };
  let timer;
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, 90); });
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}

// Search as one types: the page with this query is fetched, and its results take their place.
function typed(form) {
  let timer, asked = 0;
  const show = async () => {
    const mine = ++asked;
    const url = `${location.pathname}?${new URLSearchParams(new FormData(form))}`;
    const fresh = await page(url);
    if (!fresh || mine !== asked) return;
    history.replaceState(null, "", url);
    const part = form.dataset.typed;
    morph(document.getElementById(part), fresh.getElementById(part));
  };
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, 150); });
  form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
}

// A card that is dropped on a column does what its button for that would do, if it has one.
document.addEventListener("dragstart", (event) => event.dataTransfer.setData("text/plain", event.target.closest?.("[data-row]")?.id ?? ""));
document.addEventListener("dragover", (event) => event.target.closest?.("[data-column]") && event.preventDefault());
document.addEventListener("drop", (event) => {
  const column = event.target.closest?.("[data-column]");
  if (!column) return;
  event.preventDefault();
  const card = document.getElementById(event.dataTransfer.getData("text/plain"));
  if (!card || column.contains(card)) return;
  const { column: name, by } = column.dataset;
  for (const button of card.querySelectorAll("button[data-path]")) {
    const { status, phase } = JSON.parse(button.dataset.body);
    const isPhase = by === "phase" && button.dataset.key === "m";
    const isThis = by === "phase" ? phase === name : status === name || (phase && name === "completed");
    if (isThis || isPhase) return run(button, isPhase ? { phase: name } : {});
  }
  say(`A task isn't made ${name} here: its agents or its gates say so.`, true);
});
