/**
 * The attributes of a request or connection that has ended, from an entry of Envoy's gRPC access log.
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/data/accesslog/v3/accesslog.proto
 */
import type { Value } from '../../expressions/index.ts';
import { envoy } from '../../protobuf/index.ts';
import { type Connection, headerAttribute, pathAttribute, TrafficAttributes } from './common.ts';
import { duration, int, numberOf, socketOf, timestamp } from './values.ts';
import type { CallerRecord, WorkloadTable } from './workloads.ts';

type Common = envoy.data.accesslog.v3.AccessLogCommon;
type HttpEntry = envoy.data.accesslog.v3.HTTPAccessLogEntry;
type TcpEntry = envoy.data.accesslog.v3.TCPAccessLogEntry;
type Properties = Pick<envoy.data.accesslog.v3.TLSProperties, 'peerCertificateProperties'>;

const METHODS = new Map(Object.entries(envoy.config.core.v3.RequestMethod).map(([name, number]) => [number, name]));

function connectionOf(common: Common | null, host: string | undefined): Connection {
  const tls = common?.tlsProperties;
  return {
    source: socketOf(common?.downstreamDirectRemoteAddress ?? common?.downstreamRemoteAddress),
    destination: socketOf(common?.downstreamLocalAddress),
    peer: peerOf(tls),
    serverName: tls?.tlsSniHostname ?? '',
    host,
  };
}

function peerOf(tls: Properties | null | undefined): string {
  const names = tls?.peerCertificateProperties?.subjectAltName ?? [];
  return names.map(({ uri }) => uri ?? '').find((uri) => uri !== '') ?? '';
}

export class HttpRecordAttributes extends TrafficAttributes {
  readonly #entry: HttpEntry;

  constructor(entry: HttpEntry, caller: CallerRecord, workloads: WorkloadTable) {
    super(caller, connectionOf(entry.commonProperties, entry.request?.authority.replace(/:\d+$/, '')), workloads);
    this.#entry = entry;
  }

  protected override own(name: string): Value | undefined {
    if (name.startsWith('request.')) return this.#ofRequest(name);
    if (name.startsWith('response.')) return this.#ofResponse(name);
    const { commonProperties: common, request } = this.#entry;
    if (name === 'context.time') return timestamp(common?.startTime);
    if (name === 'context.protocol' || name === 'api.protocol')
      return headerAttribute('api.protocol', (header) => request?.requestHeaders[header]);
    return undefined;
  }

  #ofRequest(name: string): Value | undefined {
    const { request, commonProperties: common } = this.#entry;
    if (name === 'request.time') return timestamp(common?.startTime);
    if (request === null) return undefined;
    switch (name) {
      case 'request.headers':
        return new Map(Object.entries(this.#headers()));
      case 'request.host':
        return request.authority;
      case 'request.method':
        return METHODS.get(request.requestMethod);
      case 'request.scheme':
        return request.scheme;
      case 'request.size':
        return int(request.requestBodyBytes);
      case 'request.total_size':
        return int(numberOf(request.requestBodyBytes) + numberOf(request.requestHeadersBytes));
      case 'request.path':
      case 'request.url_path':
      case 'request.query_params':
        return pathAttribute(name, request.originalPath === '' ? request.path : request.originalPath);
      default: {
        const headers = this.#headers();
        return headerAttribute(name, (header) => headers[header]);
      }
    }
  }

  /** Those that the access logger sends: the fixed ones, and the ones that rules name. */
  #headers(): Record<string, string> {
    const { request } = this.#entry;
    const fixed: readonly (readonly [string, string | undefined])[] = [
      [':authority', request?.authority],
      [':path', request?.path],
      ['user-agent', request?.userAgent],
      ['referer', request?.referer],
      ['x-forwarded-for', request?.forwardedFor],
      ['x-request-id', request?.requestId],
    ];
    const sent = fixed.filter(([, value]) => value !== undefined && value !== '');
    return { ...(Object.fromEntries(sent) as Record<string, string>), ...request?.requestHeaders };
  }

  #ofResponse(name: string): Value | undefined {
    const { response, commonProperties: common } = this.#entry;
    if (response === null) return undefined;
    switch (name) {
      case 'response.code':
        return BigInt(response.responseCode?.value ?? 0);
      case 'response.headers':
        return new Map(Object.entries(response.responseHeaders));
      case 'response.size':
        return int(response.responseBodyBytes);
      case 'response.total_size':
        return int(numberOf(response.responseBodyBytes) + numberOf(response.responseHeadersBytes));
      case 'response.duration':
        return duration(common?.duration ?? common?.timeToLastDownstreamTxByte);
      case 'response.time':
        return this.#end();
      case 'response.grpc_status':
        return response.responseTrailers['grpc-status'] ?? response.responseHeaders['grpc-status'];
      case 'response.grpc_message':
        return response.responseTrailers['grpc-message'] ?? response.responseHeaders['grpc-message'];
      default:
        return undefined;
    }
  }

  #end(): Value | undefined {
    const { commonProperties: common } = this.#entry;
    const [start, length] = [timestamp(common?.startTime), duration(common?.timeToLastDownstreamTxByte)];
    return start && { kind: 'timestamp', nanos: start.nanos + (length?.nanos ?? 0n) };
  }
}

export class TcpRecordAttributes extends TrafficAttributes {
  readonly #entry: TcpEntry;

  constructor(entry: TcpEntry, caller: CallerRecord, workloads: WorkloadTable) {
    super(caller, connectionOf(entry.commonProperties, undefined), workloads);
    this.#entry = entry;
  }

  protected override own(name: string): Value | undefined {
    const { commonProperties: common, connectionProperties: bytes } = this.#entry;
    switch (name) {
      case 'context.protocol':
        return 'tcp';
      case 'context.time':
        return timestamp(common?.startTime);
      case 'connection.id':
        return common?.streamId === '' ? undefined : common?.streamId;
      case 'connection.event':
        return 'close';
      case 'connection.duration':
        return duration(common?.duration);
      case 'connection.received.bytes':
      case 'connection.received.bytes_total':
        return bytes === null ? undefined : int(bytes.receivedBytes);
      case 'connection.sent.bytes':
      case 'connection.sent.bytes_total':
        return bytes === null ? undefined : int(bytes.sentBytes);
      default:
        return undefined;
    }
  }
}
