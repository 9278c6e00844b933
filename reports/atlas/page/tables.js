// Tables from rows: plain ones, and those that sort by any column.

import { announce, make } from "./dom.js";
import { format, formatP, shortened, words } from "./text.js";

/** A table from rows: columns are {name, label, text(row), class}; `caption` is for everybody. */
export function plainTable(caption, columns, rows, options = {}) {
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

/** Fill a table's body: the first rows at once, the others while nobody waits; a later call takes over. */
export function fillRows(body, items, makeRow) {
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
export function sortableTable(caption, columns, rows, options = {}) {
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

/** A table of rows with whatever keys they have. */
export function anyTable(caption, rows) {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const columns = keys.map((key) => {
    const numeric = rows.every((row) => row[key] === null || row[key] === undefined || typeof row[key] === "number");
    return numeric ? numberColumn(key) : { key, label: words(key), value: (row) => plainText(row[key]) };
  });
  return sortableTable(caption, columns, rows);
}

export function plainText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object"
    ? shortened(JSON.stringify(value), 120)
    : typeof value === "number"
      ? format(value)
      : String(value);
}

export function textColumn(key) {
  return { key, label: words(key), value: (row) => row[key] ?? null, text: (row) => words(row[key] ?? "") };
}

export function numberColumn(key) {
  return { key, label: words(key), class: "number", value: (row) => row[key] ?? null };
}

export function pColumn(key) {
  return {
    key,
    label: key === "p_holm" ? "p (Holm)" : key,
    class: "number",
    value: (row) => row[key] ?? null,
    text: (row) => formatP(row[key]),
  };
}
