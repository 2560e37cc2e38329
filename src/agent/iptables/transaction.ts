/**
 * Text for `iptables-restore --noflush`: what must change in one table so that exactly the wanted rules of ours stand
 * there, whatever stood there of ours before, and nothing of others is touched. iptables-restore commits a table as a
 * whole or not at all.
 */
import { FOOTPRINT } from './footprint.ts';
import type { TableName, TableRules } from './types.ts';

/** What stands of ours in a table. */
export interface Standing {
  readonly chains: readonly string[];
  /** One entry for each occurrence. */
  readonly jumps: readonly string[];
}

export const NOTHING_STANDING: Standing = { chains: [], jumps: [] };

/** Reads the output of `iptables-save -t <table>`. */
export function readStanding(table: TableName, saved: string): Standing {
  const { chains, jumps } = FOOTPRINT[table];
  const lines = saved.split('\n').map((line) => line.trim());
  return {
    chains: chains.filter((name) => lines.some((line) => line.startsWith(`:${name} `))),
    jumps: lines
      .filter((line) => line.startsWith('-A '))
      .map((line) => line.slice(3))
      .filter((rule) => jumps.includes(rule)),
  };
}

/** Puts the rules in place. Jumps that are there once stay where they are, so that a second run changes nothing. */
export function applyTransaction(rules: TableRules, standing: Standing): string {
  const stays = rules.jumps.filter((jump) => standing.jumps.filter((each) => each === jump).length === 1);
  const names = rules.chains.map(({ name }) => name);
  const stale = standing.chains.filter((name) => !names.includes(name));
  return transaction(rules.table, [
    // Declares a chain, and empties it where it is there already.
    ...[...names, ...stale].map((name) => `:${name} - [0:0]`),
    ...standing.jumps.filter((jump) => !stays.includes(jump)).map((jump) => `-D ${jump}`),
    ...rules.chains.flatMap(({ name, rules: lines }) => lines.map((rule) => `-A ${name} ${rule}`)),
    ...rules.jumps.filter((jump) => !stays.includes(jump)).map((jump) => `-A ${jump}`),
    ...stale.map((name) => `-X ${name}`),
  ]);
}

/** Takes everything of ours away; undefined when nothing is there. */
export function cleanTransaction(table: TableName, { chains, jumps }: Standing): string | undefined {
  if (chains.length === 0 && jumps.length === 0) return undefined;
  return transaction(table, [
    ...chains.map((name) => `:${name} - [0:0]`),
    ...jumps.map((jump) => `-D ${jump}`),
    ...chains.map((name) => `-X ${name}`),
  ]);
}

function transaction(table: TableName, lines: readonly string[]): string {
  return [`*${table}`, ...lines, 'COMMIT', ''].join('\n');
}
