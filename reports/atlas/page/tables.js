// Tables from rows: plain ones, and those that sort by any column.

import { announce, make } from "./dom.js";
import { scrollArea } from "./scrolling.js";
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
  return scrollArea({ class: "scroll", tabindex: "0", role: "region", "aria-label": options.label ?? caption }, table);
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
      header.querySelector(".sort-sign").textContent = key === sort ? (descending ? "\u00a0▼" : "\u00a0▲") : "\u00a0↕";
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
  return scrollArea(
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

export function plainText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object"
    ? shortened(JSON.stringify(value), 120)
    : typeof value === "number"
      ? format(value)
      : String(value);
}

/** A table of rows. Columns are {key, label, kind} as far as any row has them, or else whatever keys the rows have. */
export function anyTable(caption, rows, columns = null, options = {}) {
  const keys = new Set(rows.flatMap((row) => Object.keys(row)));
  const shown = columns ? columns.filter(({ key }) => keys.has(key)) : [...keys].map((key) => ({ key }));
  return sortableTable(
    caption,
    shown.map((column) => columnOf(column, rows)),
    rows,
    options,
  );
}

/** How a column is shown: its kind says that it holds names or p-values; else numbers are told from texts. */
function columnOf({ key, label = words(key), kind }, rows) {
  const value = (row) => row[key] ?? null;
  if (kind === "p") return { key, label, class: "number", value, text: (row) => formatP(row[key]) };
  if (kind === "name") return { key, label, value, text: (row) => words(row[key] ?? "") };
  const numeric = rows.every((row) => value(row) === null || typeof row[key] === "number");
  return numeric ? numberColumn(key, label) : { key, label, value: (row) => plainText(row[key]) };
}

export function numberColumn(key, label = words(key)) {
  return { key, label, class: "number", value: (row) => row[key] ?? null };
}
