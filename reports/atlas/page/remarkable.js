// The head that a page opens with: the one that stands out most in what is told first of heads.

import { mean } from "./statistics.js";
import { format } from "./text.js";

const found = new WeakMap();

/** {index, quantity, why} of the head that lies farthest, in standard deviations, on the remarkable side of a headline. */
export function strongestHead(model) {
  if (!found.has(model)) found.set(model, search(model));
  return found.get(model);
}

function search(model) {
  let best = { height: 0, index: 0, quantity: null, why: null };
  for (const quantity of model.headlines) {
    const places = model.counted(quantity),
      values = places.map((index) => quantity.value[index]),
      centre = mean(values),
      spread = Math.sqrt(mean(values.map((value) => (value - centre) ** 2)) ?? 0);
    if (places.length < 3 || !spread) continue;
    for (const index of places) {
      const deviation = (quantity.value[index] - centre) / spread,
        height = { high: deviation, low: -deviation }[quantity.better] ?? Math.abs(deviation);
      if (height > best.height && !isUnsure(quantity, index, centre))
        best = { height, index, quantity: quantity.name, why: reason(quantity, index, deviation) };
    }
  }
  return best;
}

/** Whether the mean of all heads lies in the interval of a head: then it may be like the others. */
function isUnsure({ low, high }, index, centre) {
  const known = (low?.[index] ?? null) !== null && (high?.[index] ?? null) !== null;
  return known && low[index] <= centre && centre <= high[index];
}

function reason(quantity, index, deviation) {
  const side = deviation > 0 ? "above" : "below";
  return (
    `The page opens with this head because none stands out more: ${quantity.label} ${format(quantity.value[index])}, ` +
    `${Math.abs(deviation).toFixed(1)} standard deviations ${side} the mean of all heads.`
  );
}
