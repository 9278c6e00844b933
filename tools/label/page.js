// Labelling: one map at a time, by keys or buttons; what is labelled is told to the server at once.

import { HeatMap } from "/heat_map.js";

const POLL = 2000; // milliseconds between looks at what other tabs did
const RATE_OVER = 20; // labels that the pace is taken over
const byId = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token");
const tab = (sessionStorage.tab ||= crypto.randomUUID());
const heat = new HeatMap(byId("heat"), byId("readout"));
const maps = new Map();
const times = [];
let state = null;
let current = null; // the map shown
let busy = false; // between a key and its answer nothing else is labelled

async function ask(path, body) {
  const headers = { "X-Token": token, ...(body && { "Content-Type": "application/json" }) };
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer: nothing was labelled. Start it again and open its address.");
  }
  const content = await answer.json();
  if (answer.status === 409) {
    take(content);
    const label = content.map === null ? "" : shownName(state.labels[content.map][0]);
    throw new Error(content.map === null ? content.error : `${content.error} It is now: ${label}.`);
  }
  if (!answer.ok) throw new Error(content.error);
  return content;
}

function shownName(label) {
  return label ? label.replace("_", " + ") : "no label";
}

function say(text) {
  byId("message").textContent = text;
}

function take(content) {
  const before = state?.labels[current]?.[0];
  state = { ...state, ...content };
  refresh();
  return before;
}

function refresh() {
  const done = state.labels.filter(([label]) => label).length;
  const total = state.labels.length;
  byId("total").textContent = total;
  byId("to").max = total;
  byId("pass").textContent = `pass ${state.pass}${state.pass === 2 ? ": pass 1 is hidden" : ""}`;
  byId("out").textContent = state.out;
  byId("bar").max = total;
  byId("bar").value = done;
  byId("progress").textContent = `${done} of ${total} labelled${pace()}`;
  const label = state.labels[current]?.[0];
  for (const button of byId("classes").children) button.ariaPressed = String(button.dataset.name === label);
  if (byId("agreement").open) showAgreement();
  if (byId("votes").open) showVotes();
}

async function showVotes() {
  const number = current;
  let text = "Label this map first.";
  if (state.labels[number]?.[0]) {
    const { votes } = await ask(`/votes?number=${number}`);
    text = votes.length ? votes.map(shownName).join(", ") : "Nobody else has labelled this map.";
  }
  if (number === current) byId("voted").textContent = text;
}

async function showRubric() {
  byId("rules").textContent = (await ask("/rubric")).text || "There is no rubric in this installation.";
}

function pace() {
  if (times.length < 2) return "";
  const minutes = (times.at(-1) - times[0]) / 60000;
  return minutes > 0 ? `, ${((times.length - 1) / minutes).toFixed(1)} maps per minute` : "";
}

async function showAgreement() {
  const { maps: count, percent, kappa } = await ask("/agreement");
  const chance = kappa === null ? "not defined" : kappa.toFixed(3);
  byId("agreed").textContent = count
    ? `${count} maps labelled in both passes: ${percent.toFixed(1)} % equal, Cohen's kappa ${chance}`
    : "No map is labelled in both passes yet.";
}

function fetchMap(number) {
  if (!maps.has(number)) {
    const found = ask(`/map?number=${number}`).then(({ weights, ...rest }) => {
      const bytes = Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0));
      return { ...rest, weights: new Float32Array(bytes.buffer) };
    });
    maps.set(number, found);
    found.catch(() => maps.delete(number));
    if (maps.size > 60) maps.delete(maps.keys().next().value);
  }
  return maps.get(number);
}

async function show(number) {
  busy = true;
  try {
    const map = await fetchMap(number);
    heat.show(map);
    byId("from").textContent = `${map.from.encoder}, ${map.from.input}, head ${map.from.head}`;
    byId("heat").ariaLabel = `Attention map ${number + 1} of ${map.tokens.length} tokens: ${map.tokens.join(" ")}`;
  } catch (error) {
    heat.clear();
    throw error;
  } finally {
    current = number;
    byId("number").textContent = number + 1;
    byId("to").value = number + 1;
    history.replaceState(null, "", `#${number + 1}`);
    refresh();
    document.body.dataset.shown = number + 1;
    busy = false;
  }
  for (const near of [number + 1, number - 1]) if (state.labels[near]) fetchMap(near).catch(() => {});
}

// The next map without a label, from the start again after the last; none when all are done.
function unlabelledAfter(number) {
  const total = state.labels.length;
  for (let step = 1; step <= total; step++) {
    const next = (number + step + total) % total;
    if (!state.labels[next][0]) return next;
  }
  return null;
}

async function label(name) {
  const number = current;
  if (!heat.map) throw new Error("There is no map to label.");
  take(await ask("/label", { number, label: name, version: state.labels[number][1], tab }));
  if (!name) return;
  times.push(Date.now());
  if (times.length > RATE_OVER) times.shift();
  await skip();
}

async function skip() {
  const next = unlabelledAfter(current);
  if (next !== null) return show(next);
  say("All maps are labelled.");
  return refresh();
}

async function undo() {
  const content = await ask("/undo", { tab });
  take(content);
  await show(content.number);
  say(`Undone: map ${content.number + 1} has ${shownName(state.labels[content.number][0])} again.`);
}

async function exportTable() {
  const { out, done } = await ask("/export", {});
  say(`${done} labels are in ${out}.`);
}

function step(by) {
  return show(Math.min(state.labels.length - 1, Math.max(0, current + by)));
}

// Runs one thing at a time, and tells what went wrong.
async function act(what) {
  if (busy || current === null) return;
  busy = true;
  say("");
  try {
    await what();
  } catch (error) {
    say(error.message);
  } finally {
    busy = false;
  }
}

const PICTURES = {
  vertical: (from, to) => to === 0 || to === 7,
  diagonal: (from, to) => to === from - 1 || (from === 0 && to === 0),
  vertical_diagonal: (from, to) => to === 7 || to === from - 1,
  block: (from, to) => from < 4 === to < 4,
  heterogeneous: (from, to) => ((from * 5 + to * 3 + ((from * to) % 4)) * 7) % 11 < 3,
};

function picture(name) {
  const canvas = document.createElement("canvas");
  canvas.ariaHidden = "true";
  canvas.width = canvas.height = 8;
  const paint = () => {
    const pen = canvas.getContext("2d");
    const colour = (of) => getComputedStyle(document.documentElement).getPropertyValue(of);
    for (let place = 0; place < 64; place++) {
      const [from, to] = [Math.floor(place / 8), place % 8];
      pen.fillStyle = colour(PICTURES[name](from, to) ? "--high" : "--low");
      pen.fillRect(to, from, 1, 1);
    }
  };
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  return canvas;
}

function classButton({ name, definition }, place) {
  const button = document.createElement("button");
  const title = document.createElement("strong");
  const key = document.createElement("kbd");
  const text = document.createElement("span");
  Object.assign(button, { type: "button", ariaPressed: "false" });
  button.dataset.name = name;
  key.textContent = place + 1;
  title.append(shownName(name), key);
  text.textContent = definition;
  button.append(picture(name), title, text);
  button.addEventListener("click", () => act(() => label(name)));
  return button;
}

const KEYS = {
  u: () => act(undo),
  s: () => act(skip),
  x: () => act(() => label("")),
  e: () => act(exportTable),
  ArrowLeft: () => act(() => step(-1)),
  p: () => act(() => step(-1)),
  ArrowRight: () => act(() => step(1)),
  n: () => act(() => step(1)),
  "+": () => heat.zoomBy(1.5),
  "=": () => heat.zoomBy(1.5),
  "-": () => heat.zoomBy(1 / 1.5),
  0: () => heat.fit(),
  i: () => {
    byId("intensity").ariaPressed = String(heat.toggleIntensity());
  },
  g: () => {
    byId("to").focus();
    byId("to").select();
  },
};
const BUTTONS = {
  undo: "u",
  skip: "s",
  clear: "x",
  export: "e",
  previous: "p",
  next: "n",
  "zoom-in": "+",
  "zoom-out": "-",
  fit: "0",
  intensity: "i",
};

function listen() {
  for (const [id, key] of Object.entries(BUTTONS)) byId(id).addEventListener("click", () => KEYS[key]());
  byId("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("to").blur();
    act(() => show(byId("to").valueAsNumber - 1));
  });
  byId("agreement").addEventListener("toggle", () => byId("agreement").open && showAgreement());
  byId("votes").addEventListener("toggle", () => byId("votes").open && showVotes());
  byId("rubric").addEventListener("toggle", () => byId("rubric").open && showRubric());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const chosen = state?.classes[Number(event.key) - 1];
    if (chosen && event.repeat) return; // a key held down is one label
    const action = chosen ? () => act(() => label(chosen.name)) : Object.hasOwn(KEYS, event.key) && KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

// What other tabs did; a label that changed under the eyes is told.
async function poll() {
  try {
    const content = await ask(`/state?since=${state.sequence}`);
    if (content.labels && content.sequence > state.sequence && !busy) {
      const before = take(content);
      const after = state.labels[current]?.[0];
      if (before !== after) say(`In another tab this map was labelled: ${shownName(after)}.`);
    }
  } catch (error) {
    say(error.message);
  }
  setTimeout(poll, POLL);
}

async function start() {
  try {
    state = await ask("/state");
    byId("classes").append(...state.classes.map(classButton));
    listen();
    const wanted = Number(location.hash.slice(1)) - 1;
    await show(state.labels[wanted] ? wanted : (unlabelledAfter(-1) ?? 0));
    poll();
  } catch (error) {
    say(error.message);
  }
}

start();
