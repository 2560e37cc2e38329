/**
 * Removes what iptables of the nf_tables variant leaves behind when the last rule of a table has been removed: the base
 * chains that it made for the jumps, and the table. They have no effect, but the kernel runs their hooks for every
 * packet, and `nft list ruleset` shows them.
 */
import { FAMILIES, FOOTPRINT } from './footprint.ts';
import type { Run, RunResult } from './run.ts';
import type { Family, TableName } from './types.ts';

const NFT_FAMILIES: Readonly<Record<Family, string>> = { ipv4: 'ip', ipv6: 'ip6' };

/**
 * Removes the base chains of a table that have no rules and accept by default, and then the table if it has no chains.
 * Never rejects: what is in use stays, and so does the table where `nft` is not installed.
 */
export async function removeEmptyTable(run: Run, family: Family, table: TableName): Promise<void> {
  const { save, iptables } = FAMILIES[family];
  const saved = await attempt(run, save, ['-t', table]);
  if (saved?.code !== 0) return;
  const lines = saved.stdout.split('\n');
  for (const chain of builtInChains(table)) {
    const accepts = lines.some((line) => line.startsWith(`:${chain} ACCEPT `));
    // The kernel refuses to delete a chain with rules, also one that was added in the meantime.
    if (accepts && !lines.some((line) => line.startsWith(`-A ${chain} `)))
      await attempt(run, iptables, ['-w', '-t', table, '-X', chain]);
  }
  const name = ['table', NFT_FAMILIES[family], table];
  const listed = await attempt(run, 'nft', ['list', ...name]);
  const isEmpty = listed?.code === 0 && /^table \S+ \S+ \{\s*\}\s*$/.test(listed.stdout);
  if (isEmpty) await attempt(run, 'nft', ['delete', ...name]);
}

/** The built-in chains that have jumps to chains of meshd. */
function builtInChains(table: TableName): readonly string[] {
  return [...new Set(FOOTPRINT[table].jumps.map((jump) => jump.slice(0, jump.indexOf(' '))))];
}

/** Undefined for a program that is not installed. */
async function attempt(run: Run, program: string, args: readonly string[]): Promise<RunResult | undefined> {
  return run(program, args).catch(() => undefined);
}
