// The page as a whole: its views, and which of them shows what is chosen.

import { attentionView } from "./attention.js";
import { compareView } from "./compare.js";
import { readAtlas } from "./data.js";
import { announce, byId, hideTip, make } from "./dom.js";
import { gridView } from "./grid.js";
import { panelView } from "./head.js";
import { questionsView } from "./questions.js";
import { dockedScreen, systemIsDark, watchRoom } from "./screen.js";
import { closeHead } from "./selection.js";
import { sampleWords } from "./sample.js";
import { sourcesView } from "./sources.js";
import {
  atlas,
  change,
  currentModel,
  currentQuantity,
  models,
  panelIsOpen,
  readHash,
  selectedIndex,
  state,
  useAtlas,
  whenChanged,
} from "./state.js";
import { extent } from "./statistics.js";
import { tableView } from "./table.js";
import { format } from "./text.js";
import { currentTheme, rememberTheme, rememberedTheme, setTheme } from "./theme.js";

const VIEWS = {
  grid: ["Grid", gridView],
  table: ["Heads", tableView],
  attention: ["Attention", attentionView],
  compare: ["Compare", compareView],
  questions: ["Questions", questionsView],
  sources: ["Sources", sourcesView],
};
const built = new Set();

/** Show what was changed, and say it. */
function showChange(before) {
  render();
  if (before.quantity !== state.quantity || before.model !== state.model) announceQuantity();
  if (before.view !== state.view) announce(VIEWS[state.view][0]);
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
  const index = selectedIndex(currentModel());
  document.body.classList.toggle("with-panel", panelIsOpen());
  if (panelIsOpen()) panelView.render(currentModel(), index);
  else panelView.hide(); // before the view, which fits the room that is left
  tellSample();
  if (!built.has(state.view)) view.build(byId(`view-${state.view}`));
  built.add(state.view);
  view.render();
  document.title = `${atlas.title ?? "Atlas"} – ${label}`;
}

/** Say above every view where its numbers are of a sample. */
function tellSample() {
  const text = sampleWords(state.view === "compare" ? models : [currentModel()]);
  byId("sample").hidden = !text;
  if (text) byId("sample").replaceChildren(make("strong", {}, "A sample: no evidence."), ` ${text}`);
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
        `${"AB"[model.index] ?? model.index + 1}: ${model.shortName}`,
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

/** Escape in a field that holds a search empties that field, and nothing else; whether it did. */
function clearedSearch(field) {
  if (!field.matches?.('input[type="search"]') || !field.value) return false;
  field.value = "";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  return true;
}

async function start() {
  useAtlas(await readAtlas());
  if (!models.length) return byId("main").append(make("p", { class: "notice" }, "This atlas holds no model."));
  buildTop();
  const measured = () => document.documentElement.style.setProperty("--top", `${byId("top").offsetHeight}px`);
  new ResizeObserver(measured).observe(byId("top"));
  watchRoom(byId("main"));
  whenChanged(showChange);
  readHash(Object.keys(VIEWS));
  render();
  addEventListener("popstate", () => {
    readHash(Object.keys(VIEWS));
    render();
  });
  dockedScreen.addEventListener("change", render);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (clearedSearch(event.target)) event.preventDefault();
    else if (!byId("panel").hidden) closeHead();
  });
  document.documentElement.dataset.ready = "yes";
}

start();
