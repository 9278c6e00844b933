// Whether the numbers of a model are of enough data to say something of it.

const LEAST = 100; // counted in a run, below which its numbers are those of a sample

/** What to tell of runs that read a packaged sample or little data, or null where there are none. */
export function sampleWords(models) {
  const sources = models.flatMap((model) => model.raw.sources ?? []),
    sampled = sources.filter((source) => source.sample),
    small = sources.filter((source) => !source.sample && (source.n ?? source.examples ?? LEAST) < LEAST);
  const told = [
    sampled.length === sources.length ? "All runs read the packaged sample." : of(sampled, "the packaged sample"),
    of(small, `data in which fewer than ${LEAST} cases count`),
  ];
  if (!sampled.length && !small.length) return null;
  return [...told, "Data of your own is named with data_of.<kind>=."].filter(Boolean).join(" ");
}

function of(sources, what) {
  const runs = [...new Set(sources.map((source) => source.part ?? source.experiment))];
  return runs.length ? `${runs.join(", ")}: ${what}.` : "";
}
