/**
 * The state of each connected proxy in a few words, for pages that are read every two seconds. The table is built in
 * slices when a page asks for it, and shared by all viewers until it is out of date. Nothing is kept while no page
 * asks.
 */
import { XDS, XDS_TYPES, type XdsType } from '../core/xds-types.ts';
import type { ChosenConfiguration, ConnectionStatus, TypeStatus } from '../push/index.ts';
import { shownConfiguration } from './held.ts';
import { stateOf } from './proxies.ts';
import type { ProxyRow, SyncState } from './shapes.ts';

export const SYNC_STATES: readonly SyncState[] = ['REJECTED', 'STALE', 'NOT SENT', 'SYNCED'];

/** The least age, ms, at which the table is built again, and how many times as long as building it took. */
const MIN_AGE_MS = 1000;
const AGE_FACTOR = 50;
/** A table that nobody has read for this time, ms, is dropped. */
const UNREAD_MS = 30_000;
/** Proxies between two slices. */
const PER_STEP = 20;

const MAX_MESSAGE = 2000;
const MAX_NAMED = 5;

export interface ProxyTableOptions {
  readonly statuses: () => Iterable<ConnectionStatus>;
  readonly configurationOf: (connection: ConnectionStatus) => ChosenConfiguration;
  /** Monotonic ms. */
  readonly now: () => number;
  readonly later: (ms: number, run: () => void) => { cancel(): void };
}

export class ProxyTable {
  readonly #options: ProxyTableOptions;
  #rows: readonly ProxyRow[] = [];
  /** Undefined: there is no table. */
  #expires: number | undefined;
  #drop: { cancel(): void } | undefined;

  constructor(options: ProxyTableOptions) {
    this.#options = options;
  }

  /** The proxies, by name. Yields between slices. */
  *rows(): Generator<void, readonly ProxyRow[]> {
    const { now, later, statuses, configurationOf } = this.#options;
    this.#drop?.cancel();
    this.#drop = later(UNREAD_MS, () => {
      this.#rows = [];
      this.#expires = undefined;
    });
    if (this.#expires !== undefined && now() < this.#expires) return this.#rows;
    let [spent, from] = [0, now()];
    const rows: ProxyRow[] = [];
    for (const status of statuses()) {
      rows.push(rowOf(status, configurationOf(status)));
      if (rows.length % PER_STEP !== 0) continue;
      spent += now() - from;
      yield;
      from = now();
    }
    rows.sort((a, b) => (a.proxy < b.proxy ? -1 : a.proxy > b.proxy ? 1 : a.connection < b.connection ? -1 : 1));
    spent += now() - from;
    this.#rows = rows;
    this.#expires = now() + Math.max(MIN_AGE_MS, spent * AGE_FACTOR);
    return rows;
  }
}

export function rowOf(connection: ConnectionStatus, chosen: ChosenConfiguration): ProxyRow {
  const { connectionId, node, connectedAtMs, mode, types } = connection;
  const states: Record<string, SyncState> = {};
  let rejected: { type: XdsType; nack: NonNullable<TypeStatus['lastNack']> } | undefined;
  for (const type of XDS_TYPES) {
    const status = types.get(type);
    if (XDS[type].optional && (status === undefined || status.subscribed === 'none')) continue;
    const state = stateOf(status);
    states[XDS[type].noun] = state;
    const nack = status?.lastNack;
    if (state === 'REJECTED' && nack !== undefined && nack.atMs > (rejected?.nack.atMs ?? 0)) rejected = { type, nack };
  }
  return {
    proxy: node.workload,
    id: node.id,
    connection: connectionId,
    namespace: node.namespace,
    type: node.type,
    cluster: node.clusterId,
    version: node.meshVersion === '' ? node.version : node.meshVersion,
    connectedAt: connectedAtMs,
    mode,
    configuration: shownConfiguration(connection, chosen),
    state: worst(Object.values(states)),
    types: states,
    ...(rejected !== undefined && {
      rejection: {
        type: XDS[rejected.type].noun,
        message: rejected.nack.message.slice(0, MAX_MESSAGE),
        resources: rejected.nack.resources.slice(0, MAX_NAMED),
        at: rejected.nack.atMs,
      },
    }),
  };
}

/** A type that the proxy has not asked for yet does not count where others are sent. */
function worst(states: readonly SyncState[]): SyncState {
  if (states.includes('REJECTED')) return 'REJECTED';
  if (states.includes('STALE')) return 'STALE';
  return states.includes('SYNCED') ? 'SYNCED' : 'NOT SENT';
}
