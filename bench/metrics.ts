/** Reads the program's own metrics: sums and counts of its distributions from the Prometheus text. */

/** Sum and count of one distribution, or the difference between two readings. */
export interface Distribution {
  readonly count: number;
  /** Seconds. */
  readonly sum: number;
}

export type Samples = ReadonlyMap<string, number>;

/** `name{labels}` → value. */
export function readSamples(text: string): Samples {
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const at = line.lastIndexOf(' ');
    samples.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return samples;
}

/** The increase of a distribution since `before`, over all of its labels. */
export function since(before: Samples, after: Samples, name: string): Distribution {
  const total = (samples: Samples, suffix: string): number => {
    let sum = 0;
    for (const [key, value] of samples)
      if (key === `${name}_${suffix}` || key.startsWith(`${name}_${suffix}{`)) sum += value;
    return sum;
  };
  return {
    count: total(after, 'count') - total(before, 'count'),
    sum: total(after, 'sum') - total(before, 'sum'),
  };
}

/** The same for each value of one label. */
export function sinceByLabel(before: Samples, after: Samples, name: string): ReadonlyMap<string, Distribution> {
  const found = new Map<string, Distribution>();
  for (const key of after.keys()) {
    const label = new RegExp(`^${name}_count\\{\\w+="([^"]*)"\\}$`).exec(key)?.[1];
    if (label === undefined) continue;
    const sumKey = key.replace('_count{', '_sum{');
    const difference = (sample: string): number => (after.get(sample) ?? 0) - (before.get(sample) ?? 0);
    found.set(label, { count: difference(key), sum: difference(sumKey) });
  }
  return found;
}

/** Mean in milliseconds; undefined without samples. */
export function meanMs({ count, sum }: Distribution): number | undefined {
  return count === 0 ? undefined : (sum / count) * 1000;
}
