/** Numbers and times as people read them. */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

export function bytes(count: number): string {
  let [value, unit] = [count, 0];
  for (; value >= 1000 && unit < UNITS.length - 1; unit++) value /= 1000;
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function count(value: number): string {
  return value.toLocaleString('en');
}

export function milliseconds(ms: number | null | undefined): string {
  if (ms === undefined || ms === null) return '–';
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

const SPANS: readonly (readonly [seconds: number, unit: string])[] = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
  [1, 's'],
];

/** `3 d 4 h`: the two largest units. */
export function span(seconds: number): string {
  let left = Math.max(0, Math.round(seconds));
  const found: string[] = [];
  for (const [size, unit] of SPANS) {
    const value = Math.floor(left / size);
    left -= value * size;
    if (value > 0) found.push(`${value} ${unit}`);
    else if (found.length > 0) break;
    if (found.length === 2) break;
  }
  return found.length === 0 ? '0 s' : found.join(' ');
}

/** Local time of day, with the date when it is another day. */
export function clock(ms: number): string {
  const time = new Date(ms);
  const text = time.toLocaleTimeString('en-GB');
  return time.toDateString() === new Date().toDateString() ? text : `${time.toLocaleDateString('en-CA')} ${text}`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
