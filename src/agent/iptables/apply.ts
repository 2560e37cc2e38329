/** Applies a redirection, and removes the rules of an earlier one. */
import { CtlError, messageOf } from '../../core/errors.ts';
import { getScope } from '../../logging/index.ts';
import { FAMILIES, FOOTPRINT, TABLES } from './footprint.ts';
import { inboundSourceAddress, type MarkRoute, readMarkRoutes, routeCommand, ruleCommand } from './routing.ts';
import { redirectionRules } from './rules.ts';
import { failure, mustRun, type Run, type RunResult } from './run.ts';
import { applyTransaction, cleanTransaction, type ExistingRules, NO_RULES, readExisting } from './transaction.ts';
import type { Family, Redirection, TableName, TableRules } from './types.ts';

/** How long iptables-restore waits for the lock of another iptables, seconds. */
const LOCK_WAIT = '30';

/** The rules of meshd in one address family before a change. */
interface Earlier {
  readonly tables: ReadonlyMap<TableName, ExistingRules>;
  readonly routes: readonly MarkRoute[];
}

/**
 * Applies the rules of these families and replaces those of an earlier run. If it fails halfway, the rules of an
 * earlier run are restored: a redirection that cannot be changed stays in force. Without an earlier run, all rules of
 * meshd are removed, because a missing redirection is noticed at once, and an incomplete one is not. Rejects with
 * CtlError.
 */
export async function applyRedirection(run: Run, families: readonly Family[], wanted: Redirection): Promise<void> {
  // Read first: without iptables or permission this fails before anything is changed.
  const earlier = new Map<Family, Earlier>();
  for (const family of families) earlier.set(family, await readEarlier(run, family));
  try {
    for (const family of families) {
      await applyNetwork(run, family, wanted);
      const rules = redirectionRules(family, wanted);
      for (const table of TABLES) {
        const there = earlier.get(family)?.tables.get(table) ?? NO_RULES;
        const own = rules.find((each) => each.table === table);
        if (own === undefined) await cleanTable(run, family, table, there);
        else await restore(run, family, applyTransaction(own, there));
      }
    }
  } catch (error) {
    const tables = [...earlier.values()].flatMap((each) => [...each.tables.values()]);
    if (tables.some(({ jumps }) => jumps.length > 0)) await putBack(run, earlier);
    else await cleanRedirection(run, families).catch(() => undefined);
    throw error;
  }
}

/** Rules that cannot be restored stay as they are: no rule is removed because of that. */
async function putBack(run: Run, earlier: ReadonlyMap<Family, Earlier>): Promise<void> {
  for (const [family, { tables, routes }] of earlier) {
    const failed = (error: unknown) => {
      const reason = messageOf(error);
      getScope('default').error('the earlier redirection cannot be restored completely', { family, reason });
    };
    await applyRoutes(run, family, routes).catch(failed);
    for (const [table, { chains, jumps }] of tables)
      await putBackTable(run, family, { table, chains, jumps: [...new Set(jumps)] }).catch(failed);
  }
}

async function putBackTable(run: Run, family: Family, rules: TableRules): Promise<void> {
  const there = await readTable(run, family, rules.table);
  if (rules.chains.length === 0) await cleanTable(run, family, rules.table, there);
  else await restore(run, family, applyTransaction(rules, there));
}

/** Removes everything that a redirection may have added, and nothing else. Rejects with CtlError. */
export async function cleanRedirection(run: Run, families: readonly Family[]): Promise<void> {
  for (const family of families) {
    for (const [table, there] of await readTables(run, family)) await cleanTable(run, family, table, there);
    await deleteRoutes(run, family, await existingRoutes(run, family));
    // The command fails when the address does not exist, which is the desired state.
    if (family === 'ipv6') await run('ip', inboundSourceAddress('del')).catch(() => undefined);
  }
}

async function cleanTable(run: Run, family: Family, table: TableName, there: ExistingRules): Promise<void> {
  const text = cleanTransaction(table, there);
  if (text === undefined) return;
  await restore(run, family, text);
  await removeEmptyTable(run, family, table);
}

async function readEarlier(run: Run, family: Family): Promise<Earlier> {
  return { tables: await readTables(run, family), routes: await existingRoutes(run, family) };
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
  const { mode } = interception;
  await applyRoutes(
    run,
    family,
    mode === 'TPROXY' ? [{ mark: interception.mark, table: interception.routeTable }] : [],
  );
}

/** Adds the routing rules of meshd that are wanted, each with its route, and deletes the others. */
async function applyRoutes(run: Run, family: Family, wanted: readonly MarkRoute[]): Promise<void> {
  const existing = await existingRoutes(run, family);
  const isSame = (one: MarkRoute) => (other: MarkRoute) => one.mark === other.mark && one.table === other.table;
  const stays = wanted.map((route) => existing.find(isSame(route)));
  await deleteRoutes(
    run,
    family,
    existing.filter((route) => !stays.includes(route)),
  );
  for (const route of wanted) {
    if (!existing.some(isSame(route))) await mustRun(run, 'ip', ruleCommand(family, 'add', route));
    await mustRun(run, 'ip', routeCommand(family, 'replace', route));
  }
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

const NFT_FAMILIES: Readonly<Record<Family, string>> = { ipv4: 'ip', ipv6: 'ip6' };

/**
 * Removes what iptables of the nf_tables variant leaves behind when the last rule of a table has been removed: the base
 * chains that have no rules and accept by default, and then the table if it has no chains. They have no effect, but the
 * kernel runs their hooks for every packet, and `nft list ruleset` shows them. Never rejects: what is in use stays, and
 * so does the table where `nft` is not installed.
 */
async function removeEmptyTable(run: Run, family: Family, table: TableName): Promise<void> {
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
