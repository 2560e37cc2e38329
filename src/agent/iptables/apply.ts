/** Applies a redirection, and removes the rules of an earlier one. */
import { CtlError } from '../../core/errors.ts';
import { FAMILIES, TABLES } from './footprint.ts';
import { inboundSourceAddress, type MarkRoute, readMarkRoutes, routeCommand, ruleCommand } from './routing.ts';
import { redirectionRules } from './rules.ts';
import { failure, mustRun, type Run } from './run.ts';
import { applyTransaction, cleanTransaction, type ExistingRules, NO_RULES, readExisting } from './transaction.ts';
import type { Family, Redirection, TableName, TableRules } from './types.ts';

/** How long iptables-restore waits for the lock of another iptables, seconds. */
const LOCK_WAIT = '30';

/**
 * Applies the rules of these families and replaces those of an earlier run. When it fails halfway all rules of meshd
 * are removed: an application without redirection is noticed at once, one with half of it is not. Rejects with
 * CtlError.
 */
export async function applyRedirection(run: Run, families: readonly Family[], wanted: Redirection): Promise<void> {
  // Read first: without iptables or permission this fails before anything is changed.
  const existing = new Map<Family, ReadonlyMap<TableName, ExistingRules>>();
  for (const family of families) existing.set(family, await readTables(run, family));
  try {
    for (const family of families) {
      await applyNetwork(run, family, wanted);
      const rules = redirectionRules(family, wanted);
      for (const table of TABLES) {
        const there = existing.get(family)?.get(table) ?? NO_RULES;
        const text = transactionFor(table, rules, there);
        if (text !== undefined) await restore(run, family, text);
      }
    }
  } catch (error) {
    await cleanRedirection(run, families).catch(() => undefined);
    throw error;
  }
}

function transactionFor(table: TableName, all: readonly TableRules[], existing: ExistingRules): string | undefined {
  const rules = all.find((each) => each.table === table);
  return rules === undefined ? cleanTransaction(table, existing) : applyTransaction(rules, existing);
}

/** Removes everything that a redirection may have added, and nothing else. Rejects with CtlError. */
export async function cleanRedirection(run: Run, families: readonly Family[]): Promise<void> {
  for (const family of families) {
    for (const [table, there] of await readTables(run, family)) {
      const text = cleanTransaction(table, there);
      if (text !== undefined) await restore(run, family, text);
    }
    await deleteRoutes(run, family, await existingRoutes(run, family));
    // Fails when it does not exist, which is the desired state.
    if (family === 'ipv6') await run('ip', inboundSourceAddress('del')).catch(() => undefined);
  }
}

async function readTables(run: Run, family: Family): Promise<ReadonlyMap<TableName, ExistingRules>> {
  const existing = new Map<TableName, ExistingRules>();
  for (const table of TABLES) existing.set(table, await readTable(run, family, table));
  return existing;
}

async function readTable(run: Run, family: Family, table: TableName): Promise<ExistingRules> {
  const { save } = FAMILIES[family];
  const args = ['-t', table];
  const { code, stdout, stderr } = await run(save, args);
  if (code === 0) return readExisting(table, stdout);
  // A kernel without the table has no rules in it; if it is needed, iptables-restore fails.
  if (/does not exist/i.test(stderr) && !/permission|root/i.test(stderr)) return NO_RULES;
  throw failure(save, args, stderr);
}

async function restore(run: Run, family: Family, text: string): Promise<void> {
  await mustRun(run, FAMILIES[family].restore, ['--noflush', '-w', LOCK_WAIT], text);
}

async function applyNetwork(run: Run, family: Family, { interception }: Redirection): Promise<void> {
  if (family === 'ipv6') await mustRun(run, 'ip', inboundSourceAddress('replace'));
  const existing = await existingRoutes(run, family);
  if (interception.mode !== 'TPROXY') return deleteRoutes(run, family, existing);
  const wanted = { mark: interception.mark, table: interception.routeTable };
  const there = existing.filter(({ mark, table }) => mark === wanted.mark && table === wanted.table);
  const stale = existing.filter((route) => !there.includes(route));
  await deleteRoutes(run, family, [...stale, ...there.slice(1)]);
  if (there.length === 0) await mustRun(run, 'ip', ruleCommand(family, 'add', wanted));
  await mustRun(run, 'ip', routeCommand(family, 'replace', wanted));
}

/** The routing rules of meshd with any mark and table; none on a host without `ip`, which cannot have created any. */
async function existingRoutes(run: Run, family: Family): Promise<readonly MarkRoute[]> {
  const args = [FAMILIES[family].ip, 'rule', 'show'];
  try {
    return readMarkRoutes(await mustRun(run, 'ip', args));
  } catch (error) {
    if (error instanceof CtlError && error.code === 'not_found') return [];
    throw error;
  }
}

async function deleteRoutes(run: Run, family: Family, routes: readonly MarkRoute[]): Promise<void> {
  for (const route of routes) {
    await mustRun(run, 'ip', ruleCommand(family, 'del', route));
    // The kernel removes the route with its interface, so it may not exist.
    await run('ip', routeCommand(family, 'del', route));
  }
}
