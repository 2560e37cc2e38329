/** Pages that show the state of the whole program, and that of its proxies, a screen at a time. */
import { getHeapStatistics } from 'node:v8';
import { CtlError } from '../core/errors.ts';
import { staleMs } from '../sources/index.ts';
import { numberOf } from './numbers.ts';
import { SYNC_STATES } from './proxy-table.ts';
import type { Overview, ProxyCounts, ProxyPage, ProxyRow } from './shapes.ts';
import type { Viewed } from './viewed.ts';

const DAY_MS = 86_400_000;

export function countsOf(rows: readonly ProxyRow[]): ProxyCounts {
  const counts = { REJECTED: 0, STALE: 0, 'NOT SENT': 0, SYNCED: 0 };
  for (const { state } of rows) counts[state]++;
  return { total: rows.length, ...counts };
}

export function* overview(mesh: Viewed, now: number): Generator<void, Overview> {
  const proxies = countsOf(yield* mesh.proxyRows());
  yield;
  const sources = (mesh.sources() ?? []).map(({ id, synced, health }) => ({
    id,
    state: synced ? (health.ok ? ('current' as const) : ('failing' as const)) : ('reading' as const),
    staleSeconds: Math.ceil(staleMs(health, now) / 1000),
  }));
  const totals = mesh.totals();
  const problems = {
    rejectingProxies: proxies.REJECTED,
    withheld: mesh.withheld().length,
    refusedDocuments: mesh.problems().length,
    refusedPolicies: mesh.refusedPolicies().length,
    failingViews: totals?.failing.length ?? 0,
    findings: new Set(mesh.findings().map(({ metric, message }) => `${metric} ${message}`)).size,
    nameConflicts: [...mesh.nameConflicts()].length,
    staleSources: sources.filter(({ state }) => state === 'failing').length,
  };
  if (totals === undefined) return { proxies, problems };
  const { rss, heapUsed } = process.memoryUsage();
  const { queued = 0, underWay = 0, views = 0 } = totals.engine;
  const certificates = (mesh.recent()?.certificates() ?? []).map(({ name, expires, renewMs }) => ({
    name,
    expires: new Date(expires).toISOString(),
    days: Math.floor((expires - now) / DAY_MS),
    state: expires < now ? ('bad' as const) : expires < now + renewMs ? ('warn' as const) : ('good' as const),
  }));
  const program = {
    uptimeSeconds: Math.round(process.uptime()),
    snapshotVersion: totals.version,
    services: mesh.serviceCount,
    ...{ queued, underWay, views },
    memory: { rss, heapUsed, heapLimit: getHeapStatistics().heap_size_limit },
    certificates,
    sources,
  };
  return { proxies, problems, program };
}

const DEFAULT_ROWS = 100;
const MAX_ROWS = 1000;

/** `?search=` (in name, node id, version or rejection), `&state=`, `&start=`, `&limit=`. */
export function* proxyPage(mesh: Viewed, query: URLSearchParams): Generator<void, ProxyPage> {
  const search = (query.get('search') ?? '').toLowerCase();
  const state = query.get('state') ?? '';
  if (state !== '' && !SYNC_STATES.some((known) => known === state)) {
    throw new CtlError('invalid_argument', `unknown state ${state}, expected ${SYNC_STATES.join(', ')}`);
  }
  const [start, limit] = [numberOf(query, 'start', 0), Math.min(MAX_ROWS, numberOf(query, 'limit', DEFAULT_ROWS))];
  const rows = yield* mesh.proxyRows();
  yield;
  const matching = rows.filter((row) => (state === '' || row.state === state) && (search === '' || has(row, search)));
  const end = start + limit;
  return {
    counts: countsOf(rows),
    matching: matching.length,
    ...(end < matching.length && { next: end }),
    proxies: matching.slice(start, end),
  };
}

function has({ proxy, id, version, rejection }: ProxyRow, search: string): boolean {
  return [proxy, id, version, rejection?.message ?? ''].some((text) => text.toLowerCase().includes(search));
}
