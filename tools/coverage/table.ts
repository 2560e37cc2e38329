/**
 * `shown.json`: field → how which input shows it. `UPDATE_COVERAGE=1 npm test -- golden field-coverage` rewrites it; an
 * entry stays as it is for as long as it is right, so that few lines change.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Setting } from './fields.ts';
import { around, type Probe, type Showing } from './probe.ts';

export interface Shown {
  readonly showing: Showing;
  /** The name of the probe. */
  readonly by: string;
  /** The version of meshd since which it is shown. */
  readonly since: string;
}

const FILE = join(import.meta.dirname, 'shown.json');
const PACKAGE = join(import.meta.dirname, '../../package.json');

export function readTable(): ReadonlyMap<string, Shown> {
  const rows = JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, string>;
  return new Map(Object.entries(rows).map(([field, row]) => [field, shownOf(row)]));
}

/** One text, so that each field is a line. */
function shownOf(row: string): Shown {
  const [showing = '', by = '', since = ''] = row.split(' ');
  return { showing: showing === 'effect' ? 'effect' : 'reported', by, since };
}

export function writeTable(table: ReadonlyMap<string, Shown>): void {
  const rows = [...table].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = rows.map(
    ([field, { showing, by, since }]) => `  ${JSON.stringify(field)}: "${showing} ${by} ${since}"`,
  );
  writeFileSync(FILE, `{\n${lines.join(',\n')}\n}\n`);
}

/** Places of one input that are tried for a field before others are. */
const MOST_PLACES = 4;

/** The entries of a table that are not right: what the input that they name shows of these fields instead. */
export async function wrongEntries(
  table: ReadonlyMap<string, Shown>,
  probes: readonly Probe[],
): Promise<ReadonlyMap<string, Showing | undefined>> {
  const wrong = new Map<string, Showing | undefined>();
  for (const probe of probes) {
    const claimed = new Set([...table].filter(([, { by }]) => by === probe.name).map(([field]) => field));
    if (claimed.size === 0) continue;
    const found = await shownBy(probe, claimed);
    for (const field of claimed) if (found.get(field) !== table.get(field)?.showing) wrong.set(field, found.get(field));
  }
  const names = new Set(probes.map(({ name }) => name));
  for (const [field, { by }] of table) if (!names.has(by)) wrong.set(field, undefined);
  return wrong;
}

/** The table after changes of inputs, schemas and code. */
export async function nextTable(
  table: ReadonlyMap<string, Shown>,
  fields: readonly string[],
  probes: readonly Probe[],
): Promise<ReadonlyMap<string, Shown>> {
  const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { version: string };
  const wrong = await wrongEntries(table, probes);
  const next = new Map([...table].filter(([field]) => fields.includes(field) && !wrong.has(field)));
  for (const probe of probes) {
    const wanted = new Set(fields.filter((field) => next.get(field)?.showing !== 'effect'));
    for (const [field, showing] of await shownBy(probe, wanted)) {
      if (next.has(field) && showing === 'reported') continue;
      next.set(field, { showing, by: probe.name, since: table.get(field)?.since ?? version });
    }
  }
  return next;
}

/** How an input shows these fields. */
async function shownBy(probe: Probe, wanted: ReadonlySet<string>): Promise<ReadonlyMap<string, Showing>> {
  const found = new Map<string, Showing>();
  const all = probe.settings();
  const tried = new Map<string, number>();
  // Inner fields first: they show the objects that they are in.
  for (const setting of all.toReversed()) {
    const count = tried.get(setting.field) ?? 0;
    if (!wanted.has(setting.field) || found.get(setting.field) === 'effect' || count === MOST_PLACES) continue;
    tried.set(setting.field, count + 1);
    const showing = await probe.shows(setting);
    if (showing !== undefined) note(found, around(setting, all), wanted, showing);
  }
  return found;
}

function note(
  found: Map<string, Showing>,
  settings: readonly Setting[],
  wanted: ReadonlySet<string>,
  showing: Showing,
): void {
  for (const { field } of settings) {
    if (wanted.has(field) && found.get(field) !== 'effect') found.set(field, showing);
  }
}
