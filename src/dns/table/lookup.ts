/** Finds the host of the mesh for a name, which may be the host itself, a short form of it, or match a wildcard. */
import type { NameId, NameTable } from './name-table.ts';

/** The names of the mesh from the point of view of a client. */
export interface NameScope {
  readonly table: NameTable;
  /** Namespace of the workload: `web` refers to the service web of this namespace. Undefined: no short names. */
  readonly namespace?: string | undefined;
  /** Domain of the services of all namespaces: `svc.cluster.local`. Undefined: no short names. */
  readonly domain?: string | undefined;
  /**
   * First search domain of the client's resolv.conf: the client appends it to every name before it tries the name
   * itself, so that www.example.com arrives as www.example.com.shop.svc.cluster.local.
   */
  readonly search?: string | undefined;
}

export interface Match {
  /** The name in the table. */
  readonly id: NameId;
  readonly host: string;
  /** The name for which the search domain was appended: the response leads to it by a CNAME record. */
  readonly alias: string | undefined;
}

/**
 * Undefined for a name that is not of the mesh. Names take precedence over wildcards, and longer wildcards over shorter
 * ones, at any depth.
 *
 * @param name lower case, without a dot at the end
 */
export function findHost(name: string, scope: NameScope): Match | undefined {
  const direct = hostOf(name, scope);
  if (direct !== undefined) return { ...direct, alias: undefined };
  const unexpanded = withoutSearch(name, scope.search);
  if (unexpanded !== undefined) {
    const host = hostOf(unexpanded, scope);
    if (host !== undefined) return { ...host, alias: unexpanded };
  }
  return findWildcard(name, unexpanded, scope.table);
}

type Host = Omit<Match, 'alias'>;

function inTable(host: string, table: NameTable): Host | undefined {
  const id = table.find(host);
  return id === undefined ? undefined : { id, host };
}

function hostOf(name: string, { table, namespace, domain }: NameScope): Host | undefined {
  const own = inTable(name, table);
  if (own !== undefined) return own;
  if (domain === undefined || name === '') return undefined;
  // `web`, `web.shop`, `web.shop.svc`, in the order of the search domains of a pod.
  const suffixes = [
    namespace === undefined ? undefined : `${namespace}.${domain}`,
    domain,
    domain.replace(/^[^.]*\.?/, ''),
  ];
  for (const suffix of suffixes) {
    if (suffix === undefined || suffix === '') continue;
    const host = inTable(`${name}.${suffix}`, table);
    if (host !== undefined) return host;
  }
  return undefined;
}

function withoutSearch(name: string, search: string | undefined): string | undefined {
  if (search === undefined || search === '' || !name.endsWith(search)) return undefined;
  const end = name.length - search.length - 1;
  return end > 0 && name[end] === '.' ? name.slice(0, end) : undefined;
}

function findWildcard(name: string, unexpanded: string | undefined, table: NameTable): Match | undefined {
  if (table.wildcards === 0) return undefined;
  for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1)) {
    const direct = inTable(`*${name.slice(dot)}`, table);
    if (direct !== undefined) return { ...direct, alias: undefined };
    if (unexpanded === undefined || dot >= unexpanded.length) continue;
    const expanded = inTable(`*${unexpanded.slice(dot)}`, table);
    if (expanded !== undefined) return { ...expanded, alias: unexpanded };
  }
  return undefined;
}
