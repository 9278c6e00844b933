// What is read and what is chosen of it, the latter kept in the address so that a link reopens it.

import { Model } from "./data.js";
import { strongestHead } from "./remarkable.js";
import { dockedScreen } from "./screen.js";
import { distinctNames } from "./text.js";

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
  words: false,
};
const PLACES = ["model", "sentence"]; // counted from one in the address

export let atlas = {};
export let models = [];
export const state = { ...START };
export const opening = { head: null }; // the head that the page itself opened, until the reader opens one
let show = () => {};

export const currentModel = () => models[state.model];
export const currentQuantity = () => currentModel().byName.get(state.quantity) ?? currentModel().quantities[0];
export const selectedIndex = (model) => (state.head === null ? null : model.headIndex(state.head));

/** Take over what was read. */
export function useAtlas(read) {
  atlas = read;
  models = (read.models ?? []).map((raw, index) => new Model(raw, index));
  distinctNames(models.map((model) => model.name)).forEach((name, index) => (models[index].shortName = name));
}

/** What is called with the state before it, whenever the state has changed. */
export function whenChanged(listener) {
  show = listener;
}

/** The state in the address: only what differs from the start. */
function hashText() {
  const parts = new URLSearchParams();
  for (const [key, start] of Object.entries(START)) {
    const value = state[key];
    if (value === start || value === null || (key === "head" && openedByPage() && !dockedScreen.matches)) continue;
    parts.set(key, addressText(key, value));
  }
  return `#${parts}`;
}

function addressText(key, value) {
  if (PLACES.includes(key)) return String(value + 1);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.join("|") : value;
}

/** Take over what the address says; `views` are the names of those there are. */
export function readHash(views) {
  const parts = new URLSearchParams(location.hash.slice(1));
  Object.assign(state, START);
  for (const [key, text] of parts) {
    if (!Object.hasOwn(START, key)) continue;
    if (PLACES.includes(key)) state[key] = Math.max(0, (parseInt(text, 10) || 1) - 1);
    else if (key === "columns") state.columns = text ? text.split("|") : [];
    else state[key] = typeof START[key] === "boolean" ? text === "yes" : text;
  }
  if (!views.includes(state.view)) state.view = START.view;
  if (!models[state.model]) state.model = 0;
  if (state.head !== null && currentModel().headIndex(state.head) === null) state.head = null;
  if (location.hash.length < 2) openStrongest();
}

/** Where the address says nothing: the head that stands out most, and what it stands out in. */
function openStrongest() {
  const { index, quantity } = strongestHead(currentModel());
  state.quantity = quantity;
  state.head = opening.head = currentModel().headName(index);
}

/** Whether the panel of the chosen head is to be seen; one that nobody asked for stands beside the page, never over it. */
export function panelIsOpen() {
  return selectedIndex(currentModel()) !== null && state.panel && (dockedScreen.matches || !openedByPage());
}

function openedByPage() {
  return opening.head !== null && state.head === opening.head;
}

/** Change what is chosen and show it; `step` makes it a step that the Back button undoes. */
export function change(changes, step = false) {
  const before = { ...state };
  Object.assign(state, changes);
  if (before.model !== state.model)
    state.sentence = sameSentence(models[before.model], currentModel(), before.sentence);
  if (state.head !== null && currentModel().headIndex(state.head) === null) state.head = null;
  const address = hashText();
  if (address !== location.hash && !(address === "#" && !location.hash))
    remember(address, step || before.view !== state.view);
  show(before);
}

function remember(address, step) {
  try {
    history[step ? "pushState" : "replaceState"](null, "", address);
  } catch {
    // a page inside a notebook has no address of its own
  }
}

/** The place of one model's sentence among those of another. */
function sameSentence(from, to, place) {
  const text = from.sentences[place]?.text;
  return Math.max(
    0,
    to.sentences.findIndex((sentence) => sentence.text === text),
  );
}
