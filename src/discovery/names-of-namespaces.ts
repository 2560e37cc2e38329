/** The names that the workloads of a namespace see, for the control plane's own DNS server. */
import { createNameTable, EMPTY_NAME_TABLE, type NameTable } from '../dns/index.ts';
import { type GeneratedResource, generate, type OutboundView } from '../generate/index.ts';
import type { Snapshot } from '../model/index.ts';
import { istio } from '../protobuf/index.ts';

export interface NamesDeps {
  /** The snapshot that proxies are sent. */
  readonly snapshot: () => Snapshot;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

/** Compiling a table takes milliseconds for thousands of names: changes are seen after this time, ms. */
const MAX_AGE_MS = 1000;
/** Namespaces that are remembered, those asked last. */
const MAX_NAMESPACES = 1000;

interface Known {
  readonly snapshot: Snapshot;
  readonly table: NameTable;
  readonly checkedAt: number;
}

/** Namespaces that see the same names share their table. */
export class NamesOfNamespaces {
  readonly #deps: NamesDeps;
  readonly #known = new Map<string, Known>();
  readonly #compiled = new WeakMap<GeneratedResource, NameTable>();

  constructor(deps: NamesDeps) {
    this.#deps = deps;
  }

  of(namespace: string): NameTable {
    const [snapshot, now] = [this.#deps.snapshot(), this.#deps.now()];
    const known = this.#known.get(namespace);
    this.#known.delete(namespace);
    const isCurrent = known !== undefined && (known.snapshot === snapshot || now - known.checkedAt < MAX_AGE_MS);
    const entry = isCurrent ? known : { snapshot, table: this.#tableOf(snapshot, namespace), checkedAt: now };
    this.#known.set(namespace, entry);
    if (this.#known.size > MAX_NAMESPACES) this.#known.delete(this.#known.keys().next().value ?? '');
    return entry.table;
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
