/**
 * Builds the input of `iptables-restore --noflush`: the changes in one table after which it has exactly the desired
 * rules of meshd, whatever rules of meshd it had before, while all other rules are unchanged. iptables-restore commits
 * a table as a whole or not at all.
 */
import { addJump, FOOTPRINT } from './footprint.ts';
import type { Chain, TableName, TableRules } from './types.ts';

/** The chains and jumps of meshd in a table. */
export interface ExistingRules {
  readonly chains: readonly Chain[];
  /** One entry for each occurrence. */
  readonly jumps: readonly string[];
}

export const NO_RULES: ExistingRules = { chains: [], jumps: [] };

/** Reads the output of `iptables-save -t <table>`. */
export function readExisting(table: TableName, saved: string): ExistingRules {
  const { chains, jumps } = FOOTPRINT[table];
  const lines = saved.split('\n').map((line) => line.trim());
  const rules = lines.filter((line) => line.startsWith('-A ')).map((line) => line.slice('-A '.length));
  const rulesOf = (chain: string) =>
    rules.filter((rule) => rule.startsWith(`${chain} `)).map((rule) => rule.slice(chain.length + 1));
  return {
    chains: chains
      .filter((name) => lines.some((line) => line.startsWith(`:${name} `)))
      .map((name) => ({ name, rules: rulesOf(name) })),
    jumps: rules.filter((rule) => jumps.includes(rule)),
  };
}

/**
 * The transaction that applies the rules. Jumps that exist once stay where they are, so that a second run changes
 * nothing.
 */
export function applyTransaction(rules: TableRules, existing: ExistingRules): string {
  const stays = rules.jumps.filter((jump) => existing.jumps.filter((each) => each === jump).length === 1);
  const names = rules.chains.map(({ name }) => name);
  const stale = existing.chains.map(({ name }) => name).filter((name) => !names.includes(name));
  return transaction(rules.table, [
    // Declares a chain, and empties it if it exists.
    ...[...names, ...stale].map((name) => `:${name} - [0:0]`),
    ...existing.jumps.filter((jump) => !stays.includes(jump)).map((jump) => `-D ${jump}`),
    ...rules.chains.flatMap(({ name, rules: lines }) => lines.map((rule) => `-A ${name} ${rule}`)),
    ...rules.jumps.filter((jump) => !stays.includes(jump)).map(addJump),
    ...stale.map((name) => `-X ${name}`),
  ]);
}

/** The transaction that removes everything of meshd; undefined when there is nothing. */
export function cleanTransaction(table: TableName, { chains, jumps }: ExistingRules): string | undefined {
  if (chains.length === 0 && jumps.length === 0) return undefined;
  return transaction(table, [
    ...chains.map(({ name }) => `:${name} - [0:0]`),
    ...jumps.map((jump) => `-D ${jump}`),
    ...chains.map(({ name }) => `-X ${name}`),
  ]);
}

function transaction(table: TableName, lines: readonly string[]): string {
  return [`*${table}`, ...lines, 'COMMIT', ''].join('\n');
}
