/**
 * The protocol of a port: from `appProtocol`, else from the prefix of its name (`http-web`), else from its number.
 */
import type { Protocol } from '../types/types.ts';

const NAMES: ReadonlyMap<string, Protocol> = new Map<string, Protocol>(
  Object.entries({
    http: 'HTTP',
    http2: 'HTTP2',
    h2c: 'HTTP2',
    grpc: 'GRPC',
    'grpc-web': 'GRPC-Web',
    https: 'HTTPS',
    tls: 'TLS',
    tcp: 'TCP',
    udp: 'UDP',
    mongo: 'Mongo',
    redis: 'Redis',
    mysql: 'MySQL',
    thrift: 'Thrift',
    // Kubernetes' own names
    // (https://kubernetes.io/docs/concepts/services-networking/service/#application-protocol).
    'kubernetes.io/h2c': 'HTTP2',
    'kubernetes.io/ws': 'HTTP',
    'kubernetes.io/wss': 'HTTPS',
  } satisfies Record<string, Protocol>),
);

/**
 * SMTP, DNS, MySQL, MongoDB: their servers send the first bytes, or they are never HTTP, so sniffing would only delay
 * them.
 */
const NEVER_HTTP: ReadonlySet<number> = new Set([25, 53, 3306, 27017]);

/**
 * The protocol for `appProtocol` or the protocol of a ServiceEntry's, Gateway's or Sidecar's port, in upper or lower
 * case.
 */
export function parseProtocol(text: string | undefined): Protocol {
  return (text === undefined ? undefined : NAMES.get(text.toLowerCase())) ?? 'Unsupported';
}

/** By the part of a port's name before the first `-`; `grpc-web` has a `-` of its own. */
function protocolOfName(name: string): Protocol {
  const lower = name.toLowerCase();
  if (lower === 'grpc-web' || lower.startsWith('grpc-web-')) return 'GRPC-Web';
  return parseProtocol(lower.split('-', 1)[0]);
}

/** Protocol of a port that carries TCP. */
export function protocolOfPort(port: number, name: string, appProtocol: string | undefined): Protocol {
  const explicit = parseProtocol(appProtocol);
  if (explicit !== 'Unsupported') return explicit;
  const named = protocolOfName(name);
  if (named !== 'Unsupported') return named;
  return NEVER_HTTP.has(port) ? 'TCP' : 'Unsupported';
}
