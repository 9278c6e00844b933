// Numbers and names as a reader sees them.

/** Three digits or so, with a real minus sign; a dash for what is not defined. */
export function format(value) {
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
export function formatP(p) {
  if (p === null || p === undefined) return "–";
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}

export function formatInterval(low, high) {
  return low === null || low === undefined || high === null || high === undefined
    ? ""
    : `${format(low)} to ${format(high)}`;
}

/** `dependent_to_head` as words. */
export function words(name) {
  return String(name).replaceAll("_", " ");
}

/** A label with its unit in brackets, unless the label says the unit itself. */
export function withUnit(label, unit) {
  if (!unit) return label;
  const literal = unit.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  return new RegExp(`(?<!\\p{L})${literal}(?!\\p{L})`, "u").test(label) ? label : `${label} (${unit})`;
}

/** A name that every file system takes. */
export function fileName(...parts) {
  return parts.join("_").replace(/[^\p{L}\p{N}.-]+/gu, "_");
}

/** Names that begin with what tells them apart: what they share comes last, in brackets. */
export function distinctNames(names) {
  const shared = names.reduce((prefix, name) => {
    let length = 0;
    while (length < prefix.length && prefix[length] === name[length]) length++;
    return prefix.slice(0, length);
  }, names[0] ?? "");
  const whole = names.every((name) => !/[\p{L}\p{N}]/u.test(name[shared.length] ?? "")),
    prefix = whole ? shared : shared.replace(/[\p{L}\p{N}]+$/u, ""),
    told = prefix.replace(/[^\p{L}\p{N})\]]+$/u, "");
  if (names.length < 2 || told.length < 4) return names;
  return names.map((name) => {
    const own = name.slice(prefix.length).replace(/^[^\p{L}\p{N}]+/u, "");
    return own ? `${own} (${told})` : name;
  });
}

/** A long label cut to fit. */
export function shortened(text, length) {
  return text.length > length ? text.slice(0, length - 1) + "…" : text;
}
