/**
 * The attributes of a request or connection that Envoy asks about.
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/auth/v3/attribute_context.proto
 */
import type { Value } from '../../expressions/index.ts';
import type { envoy } from '../../protobuf/index.ts';
import { headerAttribute, pathAttribute, TrafficAttributes } from './common.ts';
import { int, socketOf, timestamp } from './values.ts';
import type { CallerRecord, WorkloadTable } from './workloads.ts';

type Context = envoy.service.auth.v3.AttributeContext;
type HttpRequest = envoy.service.auth.v3.AttributeContext.HttpRequest;

export class CheckAttributes extends TrafficAttributes {
  readonly #context: Context;
  readonly #http: HttpRequest | undefined;

  constructor(context: Context, caller: CallerRecord, workloads: WorkloadTable) {
    const { source, destination, request, tlsSession } = context;
    const connection = {
      source: socketOf(source?.address),
      destination: socketOf(destination?.address),
      peer: source?.principal ?? '',
      serverName: tlsSession?.sni ?? '',
      host: request?.http?.host.replace(/:\d+$/, ''),
    };
    super(caller, connection, workloads);
    this.#context = context;
    this.#http = request?.http ?? undefined;
  }

  get subject(): 'request' | 'connection' {
    return this.#http === undefined ? 'connection' : 'request';
  }

  protected override own(name: string): Value | undefined {
    const http = this.#http;
    if (name === 'request.time' || name === 'context.time') return timestamp(this.#context.request?.time);
    if (http === undefined) return ofConnection(name);
    const headers: Readonly<Record<string, string>> = http.headers;
    switch (name) {
      case 'request.headers':
        return new Map(Object.entries(headers));
      case 'request.host':
        return http.host;
      case 'request.method':
        return http.method;
      case 'request.scheme':
        return http.scheme;
      case 'request.size':
        return http.size === -1 ? undefined : int(http.size);
      case 'context.protocol':
        return headerAttribute('api.protocol', (header) => headers[header]);
      case 'request.path':
      case 'request.url_path':
      case 'request.query_params':
        return pathAttribute(name, http.path);
      default:
        return headerAttribute(name, (header) => (Object.hasOwn(headers, header) ? headers[header] : undefined));
    }
  }
}

/** Records of connections have the event `close`. */
function ofConnection(name: string): Value | undefined {
  if (name === 'context.protocol') return 'tcp';
  return name === 'connection.event' ? 'open' : undefined;
}
