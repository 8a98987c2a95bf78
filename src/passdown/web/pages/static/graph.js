// The knowledge graph on a canvas: a layout that is the same each time, zoom and pan by pointer and
// by key, and as many labels as there is room for. The API gives the graph, a table has it as text.
import { element, visible } from "./actions.js";

const MOST = 2000, LENGTH = 46, REACH = 4 * LENGTH, GAP = 30, LABEL = 11, CHARACTERS = 30;

export function startGraph(canvas) {
  const view = new View(canvas);
  view.load();
  canvas.addEventListener("reload", () => view.load());
}

// Where each node is: springs along edges, and nodes that are near push each other away. Whatever
// has a place already moves little; nodes without an edge are in rows below.
export function layout(nodes, rounds) {
  const linked = nodes.filter((node) => node.near.size);
  const fresh = inOrder(linked).filter((node) => node.x === undefined);
  const start = linked.length - fresh.length;
  fresh.forEach((node, at) => {
    const known = [...node.near].find((other) => other.x !== undefined && start);
    const turn = 2.399963 * (at + start), far = known ? LENGTH : LENGTH * 0.8 * Math.sqrt(at + 1);
    node.x = (known?.x ?? 0) + far * Math.cos(turn);
    node.y = (known?.y ?? 0) + far * Math.sin(turn);
  });
  for (let round = 0; round < rounds; round++) step(linked, LENGTH * 0.6 * (1 - round / rounds));
  const floor = Math.max(0, ...linked.map((node) => node.y)) + 3 * GAP;
  const alone = nodes.filter((node) => !node.near.size);
  const wide = Math.max(12, Math.ceil(Math.sqrt(alone.length) * 1.8));
  alone.forEach((node, at) => {
    node.x = ((at % wide) - (wide - 1) / 2) * GAP * 2;
    node.y = (linked.length ? floor : 0) + Math.floor(at / wide) * GAP;
  });
}

// Neighbours one after another, from the best connected node on.
function inOrder(nodes) {
  const found = new Set();
  for (const root of nodes) {
    const queue = found.has(root) ? [] : [root];
    for (let node; (node = queue.shift()); ) {
      if (found.has(node)) continue;
      found.add(node);
      queue.push(...node.near);
    }
  }
  return [...found];
}

function step(nodes, most) {
  const cells = new Map();
  const key = (x, y) => x * 100003 + y;
  for (const node of nodes) {
    node.dx = -node.x * 0.007;
    node.dy = -node.y * 0.02;
    const at = key(Math.round(node.x / REACH), Math.round(node.y / REACH));
    cells.has(at) ? cells.get(at).push(node) : cells.set(at, [node]);
  }
  for (const node of nodes) {
    const [cx, cy] = [Math.round(node.x / REACH), Math.round(node.y / REACH)];
    for (let x = cx - 1; x <= cx + 1; x++) for (let y = cy - 1; y <= cy + 1; y++)
      for (const other of cells.get(key(x, y)) ?? []) push(node, other);
    for (const other of node.near) {
      const [x, y] = [other.x - node.x, other.y - node.y];
      const far = Math.hypot(x, y) || 1;
      const pull = (far - LENGTH) / far / Math.max(2, Math.min(node.near.size, 24));
      node.dx += x * pull;
      node.dy += y * pull;
    }
  }
  for (const node of nodes) {
    const far = Math.hypot(node.dx, node.dy) || 1;
    node.x += (node.dx / far) * Math.min(far, most);
    node.y += (node.dy / far) * Math.min(far, most);
  }
}

function push(node, other) {
  if (node === other) return;
  const x = node.x - other.x || (node.at - other.at) * 0.01, y = node.y - other.y;
  const square = Math.max(x * x + y * y, 4);
  if (square > REACH * REACH) return;
  const force = (LENGTH * LENGTH * 0.5) / square;
  node.dx += x * force;
  node.dy += y * force;
}

class View {
  nodes = []; edges = []; known = new Map(); scale = 1; x = 0; y = 0; selected = null; words = []; pointers = new Map();

  constructor(canvas) {
    this.canvas = canvas;
    this.about = document.getElementById("graph-about");
    this.count = document.getElementById("graph-count");
    this.find = document.getElementById("graph-find");
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY); }, { passive: false });
    for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this[name](event));
    canvas.addEventListener("dblclick", (event) => this.zoom(1.8, event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => this.key(event));
    document.querySelectorAll("[data-graph]").forEach((button) => button.addEventListener("click", () => this.press(button.dataset.graph)));
    this.find.addEventListener("input", () => this.search());
    this.find.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); this.next(1); } });
    new ResizeObserver(() => this.isFitted ? this.fit() : this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  async load() {
    const answer = await fetch(this.canvas.dataset.source);
    if (!answer.ok) { this.count.textContent = "The graph can't be read now."; return; }
    const text = await answer.text();
    if (text === this.text) return;
    this.text = text;
    const { nodes, edges } = JSON.parse(text);
    const before = this.known;
    const made = nodes.map((node) => ({ ...node, near: new Set() }));
    this.known = new Map(made.map((node) => [node.id, node]));
    const lines = edges.map((edge) => [this.known.get(edge.source), this.known.get(edge.target), edge.relation]).filter(([from, to]) => from && to && from !== to);
    for (const [from, to] of lines) { from.near.add(to); to.near.add(from); }
    this.nodes = made.sort((one, other) => other.near.size - one.near.size || (one.id < other.id ? -1 : 1)).slice(0, MOST);
    const drawn = new Set(this.nodes);
    for (const node of this.nodes) node.near = new Set([...node.near].filter((other) => drawn.has(other)));
    this.edges = lines.filter(([from, to]) => drawn.has(from) && drawn.has(to));
    this.nodes.forEach((node, at) => { const old = before.get(node.id); Object.assign(node, { at, x: old?.x, y: old?.y }); });
    layout(this.nodes, before.size ? 40 : this.nodes.length > 500 ? 180 : 300);
    const rest = made.length - this.nodes.length;
    this.count.textContent = rest ? `Drawn are the ${MOST} best connected nodes; choose a type or a tag to see the other ${rest}.` : "";
    const chosen = this.selected?.id ?? this.canvas.dataset.around;
    this.selected = null;
    if (before.size) this.draw(); else this.fit();
    if (this.known.has(chosen)) this.select(this.known.get(chosen), false);
  }

  // The whole graph, in the middle.
  fit() {
    this.isFitted = true;
    const { clientWidth: wide, clientHeight: high } = this.canvas;
    const [xs, ys] = ["x", "y"].map((axis) => this.nodes.map((node) => node[axis]));
    const [left, right, top, bottom] = [Math.min(0, ...xs), Math.max(0, ...xs), Math.min(0, ...ys), Math.max(0, ...ys)];
    this.scale = Math.min(2, (wide - 60) / (right - left + 1), (high - 50) / (bottom - top + 1));
    this.x = wide / 2 - (this.scale * (left + right)) / 2;
    this.y = high / 2 - (this.scale * (top + bottom)) / 2;
    this.draw();
  }

  zoom(by, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    this.isFitted = false;
    const scale = Math.max(0.02, Math.min(8, this.scale * by));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  pan(x, y) {
    this.isFitted = false;
    this.x += x;
    this.y += y;
    this.draw();
  }

  press(name) {
    if (name === "fit") this.fit();
    else if (name === "next") this.next(1);
    else if (name === "back") this.next(-1);
    else this.zoom(name === "larger" ? 1.4 : 1 / 1.4);
  }

  key(event) {
    const by = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (by) this.pan(...by);
    else if (event.key === "Enter" && this.selected) location.assign(around(this.selected));
    else if (event.key === "Escape" && this.selected) this.select(null);
    else return;
    event.preventDefault();
  }

  pointerdown(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.moved = 0;
  }

  pointermove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) { this.canvas.style.cursor = this.at(event.offsetX, event.offsetY) ? "pointer" : "grab"; return; }
    const now = [event.offsetX, event.offsetY];
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    const far = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]);
    if (other) this.zoom(far(now) / (far(before) || 1), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    else this.pan(now[0] - before[0], now[1] - before[1]);
    this.moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    this.pointers.set(event.pointerId, now);
  }

  pointerup(event) {
    this.pointers.delete(event.pointerId);
    if (this.moved < 5) this.select(this.at(event.offsetX, event.offsetY), false);
  }

  pointercancel(event) { this.pointers.delete(event.pointerId); }

  at(x, y) {
    let best = null, least = 14;
    for (const node of this.nodes) {
      const far = Math.hypot(node.x * this.scale + this.x - x, node.y * this.scale + this.y - y) - this.radius(node);
      if (far < least) [best, least] = [node, far];
    }
    return best;
  }

  search() {
    this.words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.nodes.filter((node) => this.fits(node)).length;
    this.count.textContent = this.words.length ? `${found} of ${this.nodes.length} nodes have this; Enter shows them one by one.` : "";
    this.draw();
  }

  fits(node) {
    if (!this.words.length) return true;
    const text = [node.id, node.type, node.summary, ...(node.tags ?? [])].join(" ").toLowerCase();
    return this.words.every((word) => text.includes(word));
  }

  // The next of the nodes that were searched for, or of those next to the selected one's place in order.
  next(by) {
    const all = this.nodes.filter((node) => this.fits(node));
    if (!all.length) return;
    const at = all.indexOf(this.selected);
    this.select(all[(at + by + (at < 0 && by < 0 ? 1 : 0) + all.length) % all.length]);
  }

  select(node, isCentred = true) {
    this.selected = node;
    if (node && isCentred) {
      this.isFitted = false;
      this.scale = Math.max(this.scale, 1.1);
      this.x = this.canvas.clientWidth / 2 - node.x * this.scale;
      this.y = this.canvas.clientHeight / 2 - node.y * this.scale;
    }
    this.describe(node);
    this.draw();
  }

  describe(node) {
    this.about.hidden = !node;
    if (!node) return this.about.replaceChildren();
    const lines = this.edges.filter(([from, to]) => from === node || to === node);
    const shown = lines.slice(0, 40).map(([from, to, relation]) => {
      const other = from === node ? to : from;
      const button = element("button", { type: "button", className: "link" }, other.id);
      button.onclick = () => { this.select(other); this.canvas.focus(); };
      return element("li", {}, from === node ? `${relation.replaceAll("_", " ")} ` : "", button, from === node ? "" : ` ${relation.replaceAll("_", " ")} this`);
    });
    const more = lines.length > 40 ? [element("li", { className: "note" }, `and ${lines.length - 40} more`)] : [];
    this.about.replaceChildren(
      element("h3", {}, node.id), element("p", {}, node.summary), element("p", { className: "note" }, [node.type, ...(node.tags ?? []).map((tag) => `#${tag}`)].join(" ")),
      element("ul", {}, ...shown, ...more), element("a", { href: around(node) }, "Only what is around it"),
    );
  }

  radius(node) { return Math.min(16, 2.5 + 1.3 * Math.sqrt(node.near.size)) * Math.max(0.75, Math.min(1.6, Math.sqrt(this.scale))); }

  draw() {
    if (this.isDue || !this.text) return;
    this.isDue = true;
    requestAnimationFrame(() => { this.isDue = false; this.paint(); });
  }

  paint() {
    const { canvas } = this, { clientWidth: wide, clientHeight: high } = canvas, dots = devicePixelRatio || 1;
    if (canvas.width !== Math.round(wide * dots)) canvas.width = Math.round(wide * dots);
    if (canvas.height !== Math.round(high * dots)) canvas.height = Math.round(high * dots);
    const pen = canvas.getContext("2d"), style = getComputedStyle(canvas);
    const colours = new Map();
    const colour = (name) => colours.get(name) ?? colours.set(name, style.getPropertyValue(name).trim()).get(name);
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, wide, high);
    const isNear = (node) => !this.selected || node === this.selected || this.selected.near.has(node);
    const isLit = (node) => isNear(node) && this.fits(node);
    const place = (node) => [node.x * this.scale + this.x, node.y * this.scale + this.y];
    for (const [from, to] of this.edges) {
      const isOwn = this.selected && (from === this.selected || to === this.selected);
      pen.globalAlpha = isOwn ? 0.9 : this.selected || this.words.length ? 0.12 : 0.35;
      pen.strokeStyle = colour(isOwn ? "--accent" : "--soft");
      pen.lineWidth = isOwn ? 1.4 : 0.7;
      pen.beginPath(); pen.moveTo(...place(from)); pen.lineTo(...place(to)); pen.stroke();
    }
    for (const node of this.nodes) {
      pen.globalAlpha = isLit(node) ? 1 : 0.18;
      pen.fillStyle = colour(`--${node.type}`) || colour("--soft");
      pen.beginPath(); pen.arc(...place(node), this.radius(node), 0, 7); pen.fill();
      if (node === this.selected) { pen.lineWidth = 2.5; pen.strokeStyle = colour("--text"); pen.stroke(); }
    }
    canvas.dataset.labels = this.label(pen, this.nodes.filter(isLit), place, colour, wide, high);
    Object.assign(canvas.dataset, { nodes: this.nodes.length, edges: this.edges.length, scale: this.scale.toFixed(3), selected: this.selected?.id ?? "" });
  }

  // Labels, those of the best connected first, wherever they cover no other; from near with what a node is about.
  label(pen, nodes, place, colour, wide, high) {
    const taken = [];
    const room = Math.max(1, 16 * (1 - this.scale));
    let count = 0, seen = 0;
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    for (const node of this.selected ? [this.selected, ...nodes] : nodes) {
      const [x, y] = place(node), below = y + this.radius(node) + LABEL + 1;
      if (x < 0 || x > wide || y < -20 || y > high) continue;
      seen += 1;
      const lines = this.scale > 2.2 ? [cut(node.id), cut(node.summary, 2 * CHARACTERS)] : [cut(node.id)];
      const weight = node.near.size > 7 || node === this.selected ? 600 : 400;
      pen.font = `${weight} ${LABEL}px system-ui, sans-serif`;
      const half = Math.max(...lines.map((line) => pen.measureText(line).width)) / 2 + 3 + room;
      const box = [x - half, below - LABEL - room / 2, x + half, below + (lines.length - 1) * (LABEL + 3) + 4 + room / 2];
      if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      taken.push(box);
      lines.forEach((line, at) => {
        pen.font = `${at ? 400 : weight} ${LABEL}px system-ui, sans-serif`;
        pen.lineWidth = 3;
        pen.strokeStyle = colour("--ground");
        pen.strokeText(line, x, below + at * (LABEL + 3));
        pen.fillStyle = colour(at ? "--soft" : "--text");
        pen.fillText(line, x, below + at * (LABEL + 3));
      });
      count += 1;
    }
    return `${count} of ${seen}`;
  }
}

const cut = (text, most = CHARACTERS) => visible(text.length > most ? `${text.slice(0, most - 1)}…` : text);
const around = (node) => `/knowledge?around=${encodeURIComponent(node.id)}`;
