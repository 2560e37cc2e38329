/** A probe of the application: reading one from a configuration, and running it. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { CtlError, messageOf, oneLineOf } from '../../core/errors.ts';
import { type HttpTarget, httpCall } from '../../core/network/http-call.ts';
import { hostPort } from '../../core/network/listen.ts';
import { isObject } from '../../core/objects.ts';
import { openGrpcClient } from '../grpc/index.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface HttpProbe {
  readonly kind: 'http';
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly tls: boolean;
  /** These override headers of the same name from the prober. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly timeoutMs: number;
}

export interface TcpProbe {
  readonly kind: 'tcp';
  readonly host: string;
  readonly port: number;
  readonly timeoutMs: number;
}

const HEALTH_PATH = '/grpc.health.v1.Health/Check';
/** Maximum size of a response, a message with one number. */
const MAX_HEALTH_ANSWER_BYTES = 1024;

/**
 * The gRPC health check (https://github.com/grpc/grpc/blob/master/doc/health-checking.md), as the kubelet makes
 * it: plain text, a new connection for each check. Rejects when the service cannot be reached in time.
 */
async function isServing({ host, port, service, timeoutMs }: GrpcProbe): Promise<boolean> {
  const { grpc } = await import('../../protobuf/agent/index.ts');
  const { HealthCheckRequest, HealthCheckResponse } = grpc.health.v1;
  const client = await openGrpcClient(
    { address: { host, port }, tls: undefined },
    { maxMessageBytes: MAX_HEALTH_ANSWER_BYTES },
  );
  try {
    const request = HealthCheckRequest.encode({ service }).finish();
    const { status } = HealthCheckResponse.decode(await client.unary({ path: HEALTH_PATH, request, timeoutMs }));
    return status === HealthCheckResponse.ServingStatus.SERVING;
  } catch (error) {
    if (!(error instanceof CtlError)) throw new CtlError('internal', oneLineOf(error), {}, error);
    if (error.code === 'unavailable') throw error;
    return false;
  } finally {
    client.close();
  }
}

export interface GrpcProbe {
  readonly kind: 'grpc';
  readonly host: string;
  readonly port: number;
  /** Empty for the server as a whole. */
  readonly service: string;
  readonly timeoutMs: number;
}

export type AppProbe = HttpProbe | TcpProbe | GrpcProbe;

/** The default of Kubernetes. */
const DEFAULT_TIMEOUT_SECONDS = 1;
/** A day: Node timers set to more than 2^31 ms fire at once, and gRPC timeouts have eight digits. */
const MAX_TIMEOUT_SECONDS = 86_400;
/** The kubelet's limit of redirects. */
const MAX_REDIRECTS = 10;

function refused(why: string): CtlError {
  return new CtlError('invalid_argument', why);
}

/**
 * Reads a probe in the form that Pod specs use. Throws a CtlError that says what was expected.
 *
 * @param host the application's address, unless the probe names another one
 */
export function parseProbe(spec: unknown, host: string): AppProbe {
  if (!isObject(spec)) throw refused('expected a probe');
  const timeoutMs = probeTimeoutMs(spec);
  const { httpGet, tcpSocket, grpc } = spec;
  if (isObject(httpGet)) return { kind: 'http', timeoutMs, ...httpTarget(httpGet, host) };
  if (isObject(tcpSocket)) return { kind: 'tcp', timeoutMs, ...target(tcpSocket, host) };
  if (isObject(grpc)) {
    const { service = '' } = grpc;
    if (typeof service !== 'string') throw refused('service must be a string');
    return { kind: 'grpc', timeoutMs, service, ...target(grpc, host) };
  }
  throw refused('expected httpGet, tcpSocket or grpc');
}

/** `timeoutSeconds` of a probe, or its default. */
export function probeTimeoutMs({ timeoutSeconds: seconds = DEFAULT_TIMEOUT_SECONDS }: Fields): number {
  if (typeof seconds !== 'number' || seconds < 0) throw refused('timeoutSeconds must be a number of at least 0');
  return Math.min(seconds === 0 ? DEFAULT_TIMEOUT_SECONDS : seconds, MAX_TIMEOUT_SECONDS) * 1000;
}

function target(spec: Fields, host: string): { host: string; port: number } {
  const port = typeof spec.port === 'string' ? Number(spec.port) : spec.port;
  // The kubelet resolves names of ports; injection has already replaced them with numbers.
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65_535)
    throw refused('port must be a number from 1 to 65535');
  const own = typeof spec.host === 'string' && spec.host !== '' ? spec.host : host;
  return { host: own, port };
}

function httpTarget(spec: Fields, host: string): Omit<HttpProbe, 'kind' | 'timeoutMs'> {
  const { path: wanted = '/', scheme = 'HTTP', httpHeaders = [] } = spec;
  if (typeof wanted !== 'string') throw refused('path must be a string');
  const tls = typeof scheme === 'string' && scheme.toUpperCase() === 'HTTPS';
  if (!tls && scheme !== '' && String(scheme).toUpperCase() !== 'HTTP') throw refused('scheme must be HTTP or HTTPS');
  if (!Array.isArray(httpHeaders)) throw refused('httpHeaders must be a list');
  const headers = httpHeaders.map((header: unknown) => {
    const { name, value = '' } = isObject(header) ? header : {};
    if (typeof name !== 'string' || !/^:?[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || typeof value !== 'string')
      throw refused('httpHeaders must have names and values');
    return [name, value] as const;
  });
  const rooted = wanted.startsWith('/') ? wanted : `/${wanted}`;
  return { ...target(spec, host), path: encodeURI(decodeQuietly(rooted)), tls, headers };
}

/** Decodes a path if possible, so that an encoded one is not encoded twice. */
function decodeQuietly(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/**
 * Headers of a prober that are passed on to the application. The agent's ports answer anyone, and requests of the agent
 * reach the application from loopback, bypassing the policies of its proxy. So credentials, and headers that proxies
 * vouch for (`authorization`, `cookie`, `x-forwarded-client-cert`, headers of the application), must not be passed on.
 * A probe lists the headers that it needs.
 */
const PASSED_HEADERS: readonly string[] = ['user-agent', 'accept', 'accept-encoding', 'accept-language'];

/** Runs a probe. Resolves with '' when it succeeds, otherwise with the reason; never rejects. */
export async function problemOf(probed: AppProbe): Promise<string> {
  const target = `${probed.host}:${probed.port}`;
  try {
    if (probed.kind === 'grpc') return (await isServing(probed)) ? '' : `the gRPC service of ${target} is not serving`;
    if (probed.kind === 'tcp') return (await connects(probed)) === 200 ? '' : `${target} does not accept connections`;
    const status = await answers(probed, {});
    return status >= 200 && status < 400 ? '' : `${probed.path} of ${target} returned HTTP ${status}`;
  } catch (error) {
    return `${target} cannot be reached: ${messageOf(error)}`;
  }
}

/**
 * Runs a probe. Returns the HTTP status to respond with; never rejects: an application that cannot be reached is status
 * 500.
 */
export async function probe(probed: AppProbe, incoming: IncomingHttpHeaders): Promise<number> {
  try {
    switch (probed.kind) {
      case 'tcp':
        return await connects(probed);
      case 'grpc':
        return (await isServing(probed)) ? 200 : 503;
      default:
        return await answers(probed, incoming);
    }
  } catch {
    return 500;
  }
}

async function connects({ host, port, timeoutMs }: TcpProbe): Promise<number> {
  const { connect } = await import('node:net');
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const end = (status: number): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(status);
    };
    const timer = setTimeout(end, timeoutMs, 500);
    socket.once('connect', () => end(200));
    socket.once('error', () => end(500));
  });
}

async function answers(probed: HttpProbe, incoming: IncomingHttpHeaders): Promise<number> {
  const deadline = performance.now() + probed.timeoutMs;
  const headers = probeHeaders(probed, incoming);
  let to: HttpTarget = { host: probed.host, port: probed.port, path: probed.path, unverifiedTls: probed.tls };
  for (let redirects = 0; ; redirects++) {
    const timeoutMs = Math.max(1, Math.round(deadline - performance.now()));
    const response = await httpCall({ to, headers, timeoutMs });
    response.destroy();
    const status = response.statusCode ?? 500;
    const next = status >= 300 && status < 400 ? redirectTarget(probed, to.path, response.headers.location) : undefined;
    // A redirect to another host is not followed, because that host's health is not the application's; the redirect
    // counts as the response.
    if (next === undefined || redirects >= MAX_REDIRECTS) return status;
    to = { ...to, path: next };
  }
}

/**
 * The probe's headers, with precedence over those of the prober that are passed on. `Host` is the application's address
 * unless the probe sets it.
 */
function probeHeaders({ headers, host, port }: HttpProbe, incoming: IncomingHttpHeaders): OutgoingHttpHeaders {
  const outgoing: OutgoingHttpHeaders = {
    host: hostPort({ host, port }),
    connection: 'close',
  };
  for (const name of PASSED_HEADERS) {
    const value = incoming[name];
    if (value !== undefined) outgoing[name] = value;
  }
  const given = new Map<string, string[]>();
  for (const [name, value] of headers) {
    const key = name === ':authority' ? 'host' : name.toLowerCase();
    given.set(key, [...(given.get(key) ?? []), value]);
  }
  for (const [name, values] of given) outgoing[name] = values.length === 1 ? values[0] : values;
  return outgoing;
}

/** The path of a redirect to the same server. */
function redirectTarget(probed: HttpProbe, path: string, location: string | undefined): string | undefined {
  if (location === undefined) return undefined;
  const base = `${probed.tls ? 'https:' : 'http:'}//${hostPort(probed)}`;
  const url = URL.parse(location, base + path);
  return url !== null && url.origin === new URL(base).origin ? url.pathname + url.search : undefined;
}
