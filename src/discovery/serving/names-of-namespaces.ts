/** The names that the workloads of a namespace see, for the control plane's own DNS server. */
import { createNameTable, EMPTY_NAME_TABLE, type NameTable } from '../../dns/index.ts';
import { type GeneratedResource, generate, type OutboundView } from '../../generate/index.ts';
import type { Snapshot } from '../../model/index.ts';
import { istio } from '../../protobuf/index.ts';

export interface NamesDeps {
  /** The snapshot that proxies are sent. */
  readonly snapshot: () => Snapshot;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** Compiling a table takes milliseconds for thousands of names: changes are seen after this time, ms. */
const MAX_AGE_MS = 1000;
/** Maximum number of namespaces that are kept, the most recently used ones. */
const MAX_NAMESPACES = 1000;
/** Names in all their tables together, some 140 bytes each. */
const MAX_NAMES = 500_000;

interface CachedTable {
  /** Weak: a namespace without further requests must not keep an old snapshot in memory. */
  readonly snapshot: WeakRef<Snapshot>;
  readonly table: NameTable;
  readonly checkedAt: number;
}

/** Namespaces that see the same names share their table. */
export class NamesOfNamespaces {
  readonly #deps: NamesDeps;
  readonly #maxNames: number;
  /** In the order of their last queries. */
  readonly #cached = new Map<string, CachedTable>();
  readonly #compiled = new WeakMap<GeneratedResource, NameTable>();

  constructor(deps: NamesDeps, maxNames = MAX_NAMES) {
    this.#deps = deps;
    this.#maxNames = maxNames;
  }

  /** How many namespaces are remembered. */
  get size(): number {
    return this.#cached.size;
  }

  of(namespace: string): NameTable {
    const [snapshot, now] = [this.#deps.snapshot(), this.#deps.now()];
    const known = this.#cached.get(namespace);
    this.#cached.delete(namespace);
    const isCurrent =
      known !== undefined && (known.snapshot.deref() === snapshot || now - known.checkedAt < MAX_AGE_MS);
    if (isCurrent) {
      this.#cached.set(namespace, known);
      return known.table;
    }
    const table = this.#tableOf(snapshot, namespace);
    this.#cached.set(namespace, { snapshot: new WeakRef(snapshot), table, checkedAt: now });
    this.#forget();
    return table;
  }

  /** Removes the least recently used namespaces while there are too many namespaces or names. */
  #forget(): void {
    const tables = new Set<NameTable>();
    let names = 0;
    for (const [index, [namespace, { table }]] of [...this.#cached].reverse().entries()) {
      if (!tables.has(table)) names += table.size;
      tables.add(table);
      if (index >= MAX_NAMESPACES || (index > 0 && names > this.#maxNames)) this.#cached.delete(namespace);
    }
  }

  #tableOf(snapshot: Snapshot, namespace: string): NameTable {
    const { units } = generate(snapshot, viewOf(snapshot, namespace), { nds: 'all' });
    const [resource] = [...(units.nds?.values() ?? [])].flat();
    if (resource === undefined) return EMPTY_NAME_TABLE;
    let table = this.#compiled.get(resource);
    if (table === undefined) {
      const { NameTable: Message } = istio.networking.nds.v1;
      table = createNameTable(Object.entries(Message.decode(resource.bytes).table));
      this.#compiled.set(resource, table);
    }
    return table;
  }
}

/** The view of a workload whose proxy leaves DNS to its agent, without labels: a certificate proves none. */
function viewOf(snapshot: Snapshot, namespace: string): OutboundView {
  return {
    part: 'outbound',
    scope: snapshot.scopeOf(namespace, {}).id,
    namespace,
    interception: 'REDIRECT',
    families: 'dual',
    sourceLabels: {},
    dnsDomain: `${namespace}.svc.${snapshot.settings.domain}`,
    virtualHosts: 'inline',
    endpointNames: 'cluster',
    capabilities: { extensions: undefined, sds: false },
    dns: { network: '' },
  };
}
