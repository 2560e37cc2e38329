/**
 * Addresses of services in a proxy configuration, each with its TLS: `tracing`, `envoyAccessLogService` and
 * `envoyMetricsService`.
 */
import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { parseDuration } from '../../settings/index.ts';

/** TLS to a service, by files of the machine or by the certificates of the mesh. */
export interface TlsFiles {
  readonly mesh: boolean;
  readonly certificate?: string;
  readonly key?: string;
  readonly roots?: string;
  /** Certificates that are revoked. */
  readonly crl?: string;
  readonly sni?: string;
  /** Names of which the server's certificate must have one; if empty, any name is accepted that the roots verify. */
  readonly names: readonly string[];
}

export interface RemoteService {
  readonly host: string;
  readonly port: number;
  /** Absent: plain text. */
  readonly tls?: TlsFiles;
  /** `envoy.config.core.v3.TcpKeepalive`, JSON form. */
  readonly keepalive?: Readonly<Record<string, number>>;
}

type Data = Readonly<Record<string, unknown>>;

/**
 * The service of an object with `address`, `tlsSettings` and `tcpKeepalive`; undefined without an address.
 * @param certified whether the agent has certificates of the mesh
 */
export function remoteService(data: unknown, field: string, certified: boolean): RemoteService | undefined {
  if (!isObject(data)) return undefined;
  const address = data.address ?? '';
  if (address === '') return undefined;
  const [, host = '', port = ''] = /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(String(address)) ?? [];
  if (host === '' || Number(port) < 1 || Number(port) > 65_535)
    throw new CtlError('invalid_argument', `expected host:port, got ${JSON.stringify(address)}`, {
      field: `${field}.address`,
    });
  const tls = tlsOf(data.tlsSettings, `${field}.tlsSettings`, certified);
  const keepalive = keepaliveOf(data.tcpKeepalive);
  return {
    host,
    port: Number(port),
    ...(tls !== undefined && { tls }),
    ...(keepalive !== undefined && { keepalive }),
  };
}

export function tlsOf(data: unknown, field: string, certified: boolean): TlsFiles | undefined {
  if (!isObject(data)) return undefined;
  const text = (name: string): string | undefined => {
    const value = data[name];
    if (value === undefined || value === '') return undefined;
    if (typeof value === 'string') return value;
    throw new CtlError('invalid_argument', 'expected a string', { field: `${field}.${name}` });
  };
  const mode = text('mode') ?? 'DISABLE';
  if (mode === 'DISABLE') return undefined;
  const names = Array.isArray(data.subjectAltNames) ? data.subjectAltNames.map(String) : [];
  const sni = text('sni');
  const crl = text('caCrl');
  const common = { names, ...(sni !== undefined && { sni }), ...(crl !== undefined && { crl }) };
  if (mode === 'MESH_MUTUAL' || mode === 'ISTIO_MUTUAL') {
    if (certified) return { mesh: true, ...common };
    throw new CtlError('invalid_argument', `${mode} needs certificates: set CA_ADDR`, { field });
  }
  const roots = needed(
    text('caCertificates'),
    `${field}.caCertificates`,
    `mode ${mode} needs this file to verify the server`,
  );
  if (mode === 'SIMPLE') return { mesh: false, roots, ...common };
  if (mode !== 'MUTUAL')
    throw new CtlError('invalid_argument', 'expected one of DISABLE, SIMPLE, MUTUAL, MESH_MUTUAL, ISTIO_MUTUAL', {
      field: `${field}.mode`,
    });
  const certificate = needed(text('clientCertificate'), `${field}.clientCertificate`, 'mode MUTUAL needs this file');
  const key = needed(text('privateKey'), `${field}.privateKey`, 'mode MUTUAL needs this file');
  return { mesh: false, roots, certificate, key, ...common };
}

function needed(value: string | undefined, field: string, why: string): string {
  if (value !== undefined) return value;
  throw new CtlError('invalid_argument', `required: ${why}`, { field });
}

function keepaliveOf(data: unknown): RemoteService['keepalive'] {
  if (!isObject(data)) return undefined;
  const { probes, time, interval }: Data = data;
  return {
    ...(typeof probes === 'number' && { keepalive_probes: probes }),
    ...(typeof time === 'string' && { keepalive_time: Math.ceil(parseDuration(time) / 1000) }),
    ...(typeof interval === 'string' && { keepalive_interval: Math.ceil(parseDuration(interval) / 1000) }),
  };
}
