"use strict";
// The page as a whole: what is chosen, kept in the address so that a link reopens it, and the views that show it.

const VIEWS = {
  grid: ["Grid", gridView],
  table: ["Heads", tableView],
  attention: ["Attention", attentionView],
  compare: ["Compare", compareView],
  questions: ["Questions", questionsView],
  sources: ["Sources", sourcesView],
};
const START = {
  view: "grid",
  model: 0,
  quantity: null,
  head: null,
  panel: true,
  sentence: 0,
  filter: "",
  sort: "head",
  descending: false,
  columns: null,
  numbers: false,
  rank: false,
  highlight: "",
  against: null,
  special: false,
};

let atlas = {},
  models = [],
  opener = null;
const state = { ...START },
  built = new Set();

const currentModel = () => models[state.model];
const currentQuantity = () => currentModel().byName.get(state.quantity) ?? currentModel().quantities[0];
const selectedIndex = (model) => (state.head === null ? null : model.headIndex(state.head));

/** The state in the address: only what differs from the start. */
function hashText() {
  const parts = new URLSearchParams();
  for (const [key, start] of Object.entries(START)) {
    const value = state[key];
    if (value === start || value === null) continue;
    parts.set(
      key,
      key === "model" || key === "sentence"
        ? value + 1
        : Array.isArray(value)
          ? value.join("|")
          : typeof value === "boolean"
            ? value
              ? "yes"
              : "no"
            : value,
    );
  }
  return `#${parts}`;
}

function readHash() {
  const parts = new URLSearchParams(location.hash.slice(1));
  Object.assign(state, START);
  for (const [key, text] of parts) {
    if (!Object.hasOwn(START, key)) continue;
    if (key === "model" || key === "sentence") state[key] = Math.max(0, (parseInt(text, 10) || 1) - 1);
    else if (key === "columns") state.columns = text ? text.split("|") : [];
    else state[key] = typeof START[key] === "boolean" ? text === "yes" : text;
  }
  if (!Object.hasOwn(VIEWS, state.view)) state.view = START.view;
  if (!models[state.model]) state.model = 0;
  if (state.head !== null && currentModel().headIndex(state.head) === null) state.head = null;
}

/** Change what is chosen and show it; `step` makes it a step that the Back button undoes. */
function change(changes, step = false) {
  const before = { ...state };
  Object.assign(state, changes);
  if (before.model !== state.model)
    state.sentence = sameSentence(models[before.model], currentModel(), before.sentence);
  if (state.head !== null && currentModel().headIndex(state.head) === null) state.head = null;
  const address = hashText();
  if (address !== location.hash && !(address === "#" && !location.hash))
    history[step || before.view !== state.view ? "pushState" : "replaceState"](null, "", address);
  render();
  if (before.quantity !== state.quantity || before.model !== state.model) announceQuantity();
  if (before.view !== state.view) announce(VIEWS[state.view][0]);
}

/** The place of one model's sentence among those of another. */
function sameSentence(from, to, place) {
  const text = from.sentences[place]?.text;
  return Math.max(
    0,
    to.sentences.findIndex((sentence) => sentence.text === text),
  );
}

function announceQuantity() {
  const quantity = currentQuantity(),
    range = quantity && extent(quantity.value);
  const ends = range ? `, from ${format(range[0])} to ${format(range[1])}` : "";
  if (quantity) announce(`${currentModel().name}, ${quantity.label}${ends}`);
}

function render() {
  hideTip();
  const [label, view] = VIEWS[state.view];
  for (const name of Object.keys(VIEWS)) byId(`view-${name}`).hidden = name !== state.view;
  for (const link of byId("nav").children) {
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const button of byId("models").children)
    button.setAttribute("aria-pressed", String(Number(button.dataset.model) === state.model));
  if (!built.has(state.view)) view.build(byId(`view-${state.view}`));
  built.add(state.view);
  view.render();
  const index = selectedIndex(currentModel());
  document.body.classList.toggle("with-panel", index !== null && state.panel);
  if (index !== null && state.panel) panelView.render(currentModel(), index);
  else panelView.hide();
  document.title = `${atlas.title ?? "Atlas"} – ${label}`;
}

/** Open the panel of a head; the focus goes there and comes back when it closes. `null` as `from` keeps both as they are. */
function openHead(index, from = document.activeElement, model = state.model) {
  if (from) opener = from;
  change({ model, head: models[model].headName(index), panel: true });
  const { layer, head } = currentModel().place(index);
  announce(`Layer ${layer}, head ${head}`);
  if (from !== null) panelView.title.focus({ preventScroll: dockedScreen.matches });
}

function closeHead() {
  const index = selectedIndex(currentModel()),
    view = byId(`view-${state.view}`);
  change(state.view === "attention" ? { panel: false } : { head: null, panel: true });
  const back =
    opener?.isConnected && opener.offsetParent && opener !== document.body
      ? opener
      : view.querySelector(`tr[data-index="${index}"] button, [role="gridcell"][data-index="${index}"]`);
  (back ?? byId("main")).focus();
  opener = null;
  announce("Closed");
}

function buildTop() {
  byId("title").textContent = atlas.title ?? "Atlas of attention heads";
  byId("subtitle").textContent = models
    .map((model) => `${model.name}: ${model.layers} × ${model.heads} heads, ${model.quantities.length} quantities`)
    .join(" · ");
  byId("nav").append(
    ...Object.entries(VIEWS).map(([name, [label]]) =>
      make(
        "a",
        {
          href: `#view=${name}`,
          "data-view": name,
          onclick: (event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            change({ view: name }, true);
          },
        },
        label,
      ),
    ),
  );
  byId("models").hidden = models.length < 2;
  byId("models").append(
    ...models.map((model) =>
      make(
        "button",
        { type: "button", "data-model": model.index, title: model.name, onclick: () => change({ model: model.index }) },
        `${"AB"[model.index] ?? model.index + 1}: ${model.name}`,
      ),
    ),
  );
  byId("theme").addEventListener("click", () => {
    const theme = currentTheme() === "dark" ? "light" : "dark";
    rememberTheme(theme);
    useTheme(theme);
  });
  systemIsDark.addEventListener("change", () => rememberedTheme() ?? useTheme(systemIsDark.matches ? "dark" : "light"));
  nameTheme();
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address keeps the state, not the place
    byId("main").focus();
  });
}

function useTheme(theme) {
  setTheme(theme);
  nameTheme();
  built.delete("questions"); // drawn once, so drawn anew
  byId("view-questions").replaceChildren();
  render();
  announce(`${theme} colours`);
}

function nameTheme() {
  const dark = currentTheme() === "dark";
  byId("theme").textContent = dark ? "☀ Light" : "☾ Dark";
  byId("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
}

async function start() {
  atlas = await readAtlas();
  models = (atlas.models ?? []).map((raw, index) => new Model(raw, index));
  if (!models.length) return byId("main").append(make("p", { class: "notice" }, "This atlas holds no model."));
  buildTop();
  const measured = () => document.documentElement.style.setProperty("--top", `${byId("top").offsetHeight}px`);
  new ResizeObserver(measured).observe(byId("top"));
  readHash();
  render();
  addEventListener("popstate", () => {
    readHash();
    render();
  });
  dockedScreen.addEventListener("change", () => panelView.cover());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !byId("panel").hidden) closeHead();
  });
  document.documentElement.dataset.ready = "yes";
}

start();
