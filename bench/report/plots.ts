/** The plots of the growth bench: how long changes take over proxies and over services. */

import { modeText } from '../options.ts';
import type { Row } from '../results.ts';
import type { Line, Plot } from './svg.ts';

/** A line for each kind of change and protocol, where there are at least two points. */
function linesOver(rows: readonly Row[], of: (row: Row) => number): Line[] {
  const lines = new Map<string, [number, number][]>();
  for (const row of rows) {
    if (row.latency === undefined) continue;
    const label = `${row.what}, ${modeText(row.size)}`;
    lines.set(label, [...(lines.get(label) ?? []), [of(row), row.latency.p99]]);
  }
  return [...lines]
    .map(([label, points]) => ({ label, points: points.sort(([a], [b]) => a - b) }))
    .filter(({ points }) => points.length > 1);
}

/** File name → plot. */
export function plotsOf(rows: readonly Row[]): ReadonlyMap<string, Plot> {
  const growth = rows.filter(({ bench }) => bench === 'growth');
  const most = (pick: (row: Row) => number): number => Math.max(...growth.map(pick));
  const services = most(({ size }) => size.services);
  // The plot over services is drawn at the number of proxies that all numbers of services were measured with.
  const fewest = growth.filter(({ size }) => size.services < services);
  const proxies = fewest[0]?.size.proxies;
  const plots = new Map<string, Plot>();
  const add = (file: string, x: string, cold: boolean, chosen: readonly Row[], of: (row: Row) => number): void => {
    const lines = linesOver(
      chosen.filter(({ what }) => (what === 'cold') === cold),
      of,
    );
    if (lines.length === 0) return;
    plots.set(file, {
      title: `${cold ? 'Cold start' : 'A change'} to the last proxies (p99) over ${x}`,
      x,
      y: 'ms',
      lines,
    });
  };
  for (const cold of [false, true]) {
    const name = cold ? 'cold' : 'change';
    const overProxies = growth.filter(({ size }) => size.services === services);
    const overServices = growth.filter(({ size }) => size.proxies === proxies);
    add(`${name}-over-proxies.svg`, 'proxies', cold, overProxies, ({ size }) => size.proxies);
    add(`${name}-over-services.svg`, 'services', cold, overServices, ({ size }) => size.services);
  }
  return plots;
}
