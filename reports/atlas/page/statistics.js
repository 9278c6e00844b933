// The few statistics that the page computes itself.

export function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** Smallest and largest of what is defined, or null. */
export function extent(values) {
  let low = Infinity,
    high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** Places where both columns have a value. */
export function pairedPlaces(a, b) {
  const places = [];
  a.forEach((value, place) => value !== null && b[place] !== null && places.push(place));
  return places;
}

export function pearson(a, b) {
  const places = pairedPlaces(a, b);
  if (places.length < 3) return null;
  const centreA = mean(places.map((place) => a[place])),
    centreB = mean(places.map((place) => b[place]));
  let both = 0,
    left = 0,
    right = 0;
  for (const place of places) {
    const x = a[place] - centreA,
      y = b[place] - centreB;
    both += x * y;
    left += x * x;
    right += y * y;
  }
  return left && right ? both / Math.sqrt(left * right) : null;
}

/** Rank correlation; equal values share their mean rank. */
export function spearman(a, b) {
  const places = pairedPlaces(a, b);
  return pearson(meanRanks(places.map((place) => a[place])), meanRanks(places.map((place) => b[place])));
}

function meanRanks(values) {
  const order = values.map((_, place) => place).sort((a, b) => values[a] - values[b]);
  const ranks = new Array(values.length);
  for (let start = 0, end; start < order.length; start = end) {
    for (end = start; end < order.length && values[order[end]] === values[order[start]];) end++;
    for (let place = start; place < end; place++) ranks[order[place]] = (start + end + 1) / 2;
  }
  return ranks;
}

/** B minus A where both are defined. */
export function differences(a, b) {
  return a.map((value, place) => (value === null || b[place] === null ? null : b[place] - value));
}

/** About `count` round numbers that cover the range. */
export function niceTicks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const ticks = [];
  for (let place = Math.ceil(low / step - 1e-9); place * step <= high + step * 1e-9; place++) {
    ticks.push(Number((place * step).toPrecision(12)));
  }
  return ticks;
}

export function ranked(values) {
  const order = values.map((value, index) => index).filter((index) => values[index] !== null);
  order.sort((a, b) => values[b] - values[a]);
  const rank = values.map(() => null);
  order.forEach((index, place) => {
    const before = order[place - 1];
    rank[index] = place && values[before] === values[index] ? rank[before] : place + 1;
  });
  return { rank, count: order.length };
}
