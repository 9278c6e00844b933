"use strict";
// Small tools: elements, numbers as text, announcements, downloads.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

/** An element: `make("button", {class: "quiet", onclick: f, "aria-label": "…"}, "text", child)`. */
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, rule] of Object.entries(value)) element.style.setProperty(key, rule);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Three digits or so, with a real minus sign; a dash for what is not defined. */
function format(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  let text;
  if (Number.isInteger(value) && size < 1e7) text = String(size);
  else if (size >= 1e7) text = size.toExponential(2);
  else if (size >= 1000) text = size.toFixed(0);
  else if (size >= 100) text = size.toFixed(1);
  else if (size >= 1) text = size.toFixed(2);
  else if (size >= 0.001) text = size.toPrecision(3);
  else text = size.toExponential(1);
  return (value < 0 ? "−" : "") + text;
}

/** A p-value as papers write it. */
function formatP(p) {
  if (p === null || p === undefined) return "–";
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}

function formatInterval(low, high) {
  return low === null || low === undefined || high === null || high === undefined
    ? ""
    : `${format(low)} to ${format(high)}`;
}

/** `dependent_to_head` as words. */
function words(name) {
  return String(name).replaceAll("_", " ");
}

let announcement = 0;

/** Tell readers who do not see the page what changed; the last of several quick changes counts. */
function announce(text) {
  clearTimeout(announcement);
  announcement = setTimeout(() => (byId("live").textContent = text), 150);
}

/** Hand a text to the reader as a file. */
function download(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** A name that every file system takes. */
function fileName(...parts) {
  return parts.join("_").replace(/[^\p{L}\p{N}.-]+/gu, "_");
}

/** Show a few lines beside the pointer, or beside an element that has the focus. */
function showTip(event, lines) {
  const tip = byId("tip");
  tip.replaceChildren(...lines.map((line, place) => make(place ? "span" : "strong", {}, line)));
  tip.hidden = false;
  const box = event.target.getBoundingClientRect();
  const x = event.clientX ?? box.right,
    y = event.clientY ?? box.bottom;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 18}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

/** A table from rows: columns are {name, label, text(row), class}; `caption` is for everybody. */
function plainTable(caption, columns, rows, options = {}) {
  const header = columns.map((column) => make("th", { scope: "col", class: column.class }, column.label));
  const body = rows.map((row) =>
    make(
      "tr",
      {},
      columns.map((column, place) =>
        make(place ? "td" : "th", { scope: place ? null : "row", class: column.class }, column.text(row)),
      ),
    ),
  );
  const table = make(
    "table",
    { class: "data" },
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, header)),
    make("tbody", {}, body),
  );
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.label ?? caption }, table);
}

/** Whether the screen is wide enough for side bar and panel beside the content. */
const wideScreen = matchMedia("(min-width: 62rem)");
const dockedScreen = matchMedia("(min-width: 75rem)");

/** Fill a table's body: the first rows at once, the others while nobody waits; a later call takes over. */
function fillRows(body, items, makeRow) {
  const first = 50,
    more = 100,
    job = {};
  body.job = job;
  body.replaceChildren(...items.slice(0, first).map(makeRow));
  const go = (start) => {
    if (start >= items.length || body.job !== job) return;
    body.append(...items.slice(start, start + more).map(makeRow));
    setTimeout(go, 0, start + more);
  };
  setTimeout(go, 0, first);
}

/** A table that sorts by any column: columns are {key, label, value(row), text(row), class}. */
function sortableTable(caption, columns, rows, options = {}) {
  const body = make("tbody"),
    headers = new Map();
  let sort = options.sort ?? null,
    descending = false;
  const show = () => {
    const column = columns.find((candidate) => candidate.key === sort),
      sign = descending ? -1 : 1;
    const sorted = column
      ? rows.slice().sort((a, b) => sign * compareCells(column.value(a), column.value(b), sign))
      : rows;
    fillRows(body, sorted, (row) =>
      make(
        "tr",
        {},
        columns.map((cell, place) =>
          make(
            place ? "td" : "th",
            { scope: place ? null : "row", class: cell.class },
            cell.text ? cell.text(row) : cellText(cell.value(row)),
          ),
        ),
      ),
    );
    for (const [key, header] of headers) {
      header.setAttribute("aria-sort", key === sort ? (descending ? "descending" : "ascending") : "none");
      header.querySelector(".sort-sign").textContent = key === sort ? (descending ? " ▼" : " ▲") : " ↕";
    }
  };
  const header = (column) => {
    const cell = make(
      "th",
      { scope: "col", class: column.class },
      make(
        "button",
        {
          type: "button",
          class: "sort",
          "data-sort": column.key,
          onclick: () => {
            descending = sort === column.key ? !descending : column.class === "number";
            sort = column.key;
            show();
            announce(`${caption}: sorted by ${column.label}, ${descending ? "largest first" : "smallest first"}`);
          },
        },
        column.label,
        make("span", { class: "sort-sign", "aria-hidden": "true" }),
      ),
    );
    headers.set(column.key, cell);
    return cell;
  };
  const table = make(
    "table",
    { class: "data" },
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, columns.map(header))),
    body,
  );
  show();
  return make(
    "div",
    { class: rows.length > 15 ? "scroll long" : "scroll", tabindex: "0", role: "region", "aria-label": caption },
    table,
  );
}

/** Order of two cells; what is missing comes last whichever way one sorts. */
function compareCells(a, b, sign) {
  const missingA = a === null || a === undefined || a === "",
    missingB = b === null || b === undefined || b === "";
  if (missingA || missingB) return sign * (missingA - missingB);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

function cellText(value) {
  return typeof value === "number" || value === null || value === undefined ? format(value) : String(value);
}
