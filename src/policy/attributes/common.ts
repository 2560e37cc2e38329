/** Attributes that decisions and records have in common: of the proxy, of its peer, and of a request. */
import type { Attributes, Value } from '../../expressions/index.ts';
import { addressBytes } from './values.ts';
import {
  type CallerRecord,
  serviceAt,
  type WorkloadRecord,
  type WorkloadTable,
  workloadAttribute,
} from './workloads.ts';

/** The facts of one connection that both forms of reports have. */
export interface Connection {
  readonly source: { readonly address: string; readonly port: number } | undefined;
  readonly destination: { readonly address: string; readonly port: number } | undefined;
  /** The URI of the peer's certificate, which the proxy has verified; '' without mutual TLS. */
  readonly peer: string;
  readonly serverName: string;
  readonly host: string | undefined;
}

const SPIFFE = 'spiffe://';

/** Reads attributes one by one: a rule reads few of them. */
export abstract class TrafficAttributes implements Attributes {
  protected readonly caller: CallerRecord;
  protected readonly connection: Connection;
  readonly #workloads: WorkloadTable;
  readonly #known = new Map<string, Value | undefined>();
  #source: WorkloadRecord | undefined;
  #sourceRead = false;
  #own: WorkloadRecord | undefined;
  #ownRead = false;

  constructor(caller: CallerRecord, connection: Connection, workloads: WorkloadTable) {
    this.caller = caller;
    this.connection = connection;
    this.#workloads = workloads;
  }

  get(name: string): Value | undefined {
    if (this.#known.has(name)) return this.#known.get(name);
    const value = this.own(name) ?? this.#common(name);
    this.#known.set(name, value);
    return value;
  }

  /** Attributes of this form of report. */
  protected abstract own(name: string): Value | undefined;

  #common(name: string): Value | undefined {
    const dot = name.indexOf('.');
    const rest = name.slice(dot + 1);
    switch (name.slice(0, dot)) {
      case 'source':
        return this.#ofSource(rest);
      case 'destination':
        return this.#ofDestination(rest);
      case 'origin':
        return rest === 'ip' ? this.#ip(this.connection.source?.address) : undefined;
      case 'connection':
        return this.#ofConnection(rest);
      case 'context':
        return this.#ofContext(rest);
      default:
        return undefined;
    }
  }

  #ofSource(name: string): Value | undefined {
    const { peer, source } = this.connection;
    if (name === 'ip') return this.#ip(source?.address);
    if (name === 'principal' || name === 'user') return this.#principal;
    if (!this.#sourceRead) {
      this.#sourceRead = true;
      this.#source = this.#workloads.find(source?.address ?? '', this.#principal);
    }
    if (name === 'namespace') return /^spiffe:\/\/[^/]+\/ns\/([^/]+)\/sa\//.exec(peer)?.[1];
    return this.#source === undefined ? undefined : workloadAttribute(this.#source, name);
  }

  #ofDestination(name: string): Value | undefined {
    const { caller, connection } = this;
    switch (name) {
      case 'ip':
        return this.#ip(connection.destination?.address);
      case 'port':
        return connection.destination === undefined ? undefined : BigInt(connection.destination.port);
      case 'principal':
        return caller.principal;
      case 'namespace':
        return caller.namespace;
      default:
        if (name === 'service' || name.startsWith('service.')) return this.#ofService(name.slice('service.'.length));
        return this.#workload === undefined ? undefined : workloadAttribute(this.#workload, name);
    }
  }

  /** The workload of the calling proxy. */
  get #workload(): WorkloadRecord | undefined {
    if (!this.#ownRead) {
      this.#ownRead = true;
      this.#own = this.#workloads.ownOf(this.caller, this.connection.destination?.address ?? '');
    }
    return this.#own;
  }

  #ofService(name: string): Value | undefined {
    const { connection } = this;
    const services = this.#workload === undefined ? [] : this.#workloads.servicesOf(this.#workload);
    const service = serviceAt(services, connection.destination?.port, connection.host);
    if (service === undefined) return undefined;
    if (name === '' || name === 'host') return service.host;
    if (name === 'uid') return `mesh://${service.namespace}/services/${service.name}`;
    return name === 'name' ? service.name : name === 'namespace' ? service.namespace : undefined;
  }

  #ofConnection(name: string): Value | undefined {
    const { peer, serverName } = this.connection;
    if (name === 'mtls') return peer !== '';
    return name === 'requested_server_name' && serverName !== '' ? serverName : undefined;
  }

  #ofContext(name: string): Value | undefined {
    if (name === 'reporter.kind') return 'inbound';
    if (name === 'reporter.uid') return this.#workload?.uid;
    return undefined;
  }

  get #principal(): string | undefined {
    const { peer } = this.connection;
    return peer.startsWith(SPIFFE) ? peer.slice(SPIFFE.length) : undefined;
  }

  #ip(address: string | undefined): Uint8Array | undefined {
    return address === undefined ? undefined : addressBytes(address);
  }
}

/** Attributes of a request that its headers have, by name. */
export function headerAttribute(name: string, header: (name: string) => string | undefined): Value | undefined {
  switch (name) {
    case 'request.referer':
      return header('referer');
    case 'request.useragent':
      return header('user-agent');
    case 'request.id':
      return header('x-request-id');
    case 'api.protocol':
      return header('content-type')?.startsWith('application/grpc') === true ? 'grpc' : 'http';
    default:
      return undefined;
  }
}

/** Path without its query, and the parameters of the query. */
export function pathAttribute(name: string, path: string): Value | undefined {
  if (name === 'request.path') return path;
  const mark = path.indexOf('?');
  if (name === 'request.url_path') return mark < 0 ? path : path.slice(0, mark);
  if (name !== 'request.query_params') return undefined;
  return new Map(new URLSearchParams(mark < 0 ? '' : path.slice(mark + 1)));
}
