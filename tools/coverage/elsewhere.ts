/**
 * `elsewhere.json`: the fields that no input of the table shows, each with its reason: another test shows it (`tests`
 * has its file and title), or why none does.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Elsewhere {
  readonly reason: string;
  /** `path of the file: title of the test` */
  readonly tests?: readonly string[];
  readonly fields: readonly string[];
}

const FILE = join(import.meta.dirname, 'elsewhere.json');

export function readElsewhere(): readonly Elsewhere[] {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Elsewhere[];
}

/** Leaves out the fields that need no reason any more. */
export function writeElsewhere(entries: readonly Elsewhere[], needed: (field: string) => boolean): void {
  const kept = entries
    .map((entry) => ({ ...entry, fields: entry.fields.filter(needed) }))
    .filter(({ fields }) => fields.length > 0);
  writeFileSync(FILE, `${JSON.stringify(kept, null, 2)}\n`);
}
