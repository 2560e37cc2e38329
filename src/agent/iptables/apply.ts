/** Putting a redirection in place, and taking away whatever an earlier one left. */
import { CtlError } from '../../core/errors.ts';
import { FAMILIES, TABLES } from './footprint.ts';
import { inboundSourceAddress, type MarkRoute, readMarkRoutes, routeCommand, ruleCommand } from './routing.ts';
import { redirectionRules } from './rules.ts';
import { failure, mustRun, type Run } from './run.ts';
import { applyTransaction, cleanTransaction, NOTHING_STANDING, readStanding, type Standing } from './transaction.ts';
import type { Family, Redirection, TableName, TableRules } from './types.ts';

/** iptables-restore waits this long for the lock that another iptables holds, seconds. */
const LOCK_WAIT = '30';

/**
 * Puts the rules of these families in place; whatever an earlier run left is replaced. When it fails halfway everything
 * of ours is taken away again: an application without redirection is seen at once, one with half of it is not. Rejects
 * with CtlError.
 */
export async function applyRedirection(run: Run, families: readonly Family[], wanted: Redirection): Promise<void> {
  // Looked at first: without iptables or permission nothing has been changed when this fails.
  const standing = new Map<Family, ReadonlyMap<TableName, Standing>>();
  for (const family of families) standing.set(family, await readTables(run, family));
  try {
    for (const family of families) {
      await applyNetwork(run, family, wanted);
      const rules = redirectionRules(family, wanted);
      for (const table of TABLES) {
        const there = standing.get(family)?.get(table) ?? NOTHING_STANDING;
        const text = transactionFor(table, rules, there);
        if (text !== undefined) await restore(run, family, text);
      }
    }
  } catch (error) {
    await cleanRedirection(run, families).catch(() => undefined);
    throw error;
  }
}

function transactionFor(table: TableName, all: readonly TableRules[], there: Standing): string | undefined {
  const rules = all.find((each) => each.table === table);
  return rules === undefined ? cleanTransaction(table, there) : applyTransaction(rules, there);
}

/** Takes away everything that a redirection can have added; nothing of others. Rejects with CtlError. */
export async function cleanRedirection(run: Run, families: readonly Family[]): Promise<void> {
  for (const family of families) {
    for (const [table, there] of await readTables(run, family)) {
      const text = cleanTransaction(table, there);
      if (text !== undefined) await restore(run, family, text);
    }
    await deleteRoutes(run, family, await standingRoutes(run, family));
    // Fails where it is not there, which is what is wanted.
    if (family === 'ipv6') await run('ip', inboundSourceAddress('del')).catch(() => undefined);
  }
}

async function readTables(run: Run, family: Family): Promise<ReadonlyMap<TableName, Standing>> {
  const standing = new Map<TableName, Standing>();
  for (const table of TABLES) standing.set(table, await readTable(run, family, table));
  return standing;
}

async function readTable(run: Run, family: Family, table: TableName): Promise<Standing> {
  const { save } = FAMILIES[family];
  const args = ['-t', table];
  const { code, stdout, stderr } = await run(save, args);
  if (code === 0) return readStanding(table, stdout);
  // A kernel without the table has none of our rules in it; whoever needs it hears of that from iptables-restore.
  if (/does not exist/i.test(stderr) && !/permission|root/i.test(stderr)) return NOTHING_STANDING;
  throw failure(save, args, stderr);
}

async function restore(run: Run, family: Family, text: string): Promise<void> {
  await mustRun(run, FAMILIES[family].restore, ['--noflush', '-w', LOCK_WAIT], text);
}

async function applyNetwork(run: Run, family: Family, { interception }: Redirection): Promise<void> {
  if (family === 'ipv6') await mustRun(run, 'ip', inboundSourceAddress('replace'));
  const standing = await standingRoutes(run, family);
  if (interception.mode !== 'TPROXY') return deleteRoutes(run, family, standing);
  const wanted = { mark: interception.mark, table: interception.routeTable };
  const there = standing.filter(({ mark, table }) => mark === wanted.mark && table === wanted.table);
  const stale = standing.filter((route) => !there.includes(route));
  await deleteRoutes(run, family, [...stale, ...there.slice(1)]);
  if (there.length === 0) await mustRun(run, 'ip', ruleCommand(family, 'add', wanted));
  await mustRun(run, 'ip', routeCommand(family, 'replace', wanted));
}

/**
 * Our routing rules, whichever mark and table they were made with; none on a host without `ip`, which cannot have made
 * any.
 */
async function standingRoutes(run: Run, family: Family): Promise<readonly MarkRoute[]> {
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
    // The route goes by itself with its interface, so that it may be gone.
    await run('ip', routeCommand(family, 'del', route));
  }
}
