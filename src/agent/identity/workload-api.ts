/**
 * Secrets of the SPIFFE Workload API: a stream on a Unix domain socket that sends the workload's key, certificate and
 * trusted roots, and sends them again whenever one of them is replaced. Source:
 * https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Workload_API.md
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isAbsolute } from 'node:path';
import { sleep } from '../../core/clock.ts';
import { CtlError, messageOf, oneLineOf } from '../../core/errors.ts';
import { parseSpiffeUri } from '../../core/identity.ts';
import { createFailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import { spiffe } from '../../protobuf/agent/index.ts';
import { type BytesStream, type GrpcClient, openGrpcClient } from '../grpc/index.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';
import { secretsOf, spiffeIdOf } from './certificates.ts';
import type { IdentityCounters } from './metrics.ts';
import { type AnnouncedIdentity, checkIdentity, retryDelay } from './rotation.ts';
import { createSecretHolder, type SecretHolder, secretSource } from './secret-holder.ts';

const { X509SVIDRequest, X509SVIDResponse } = spiffe.workload;

const METHOD = '/SpiffeWorkloadAPI/FetchX509SVID';
/** The server refuses requests without this header, because a web page cannot be made to send it. */
const METADATA = { 'workload.spiffe.io': 'true' };
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
/** Length of `sun_path` of unix(7), without the terminating zero. */
const MAX_PATH_BYTES = 107;
/** An API without an identity for the workload refuses the stream at once; identifying the caller takes seconds. */
const FIRST_ANSWER_MS = 30_000;
/** The API sends nothing for hours. A server of gRPC for Go ends connections with a PING within 5 minutes. */
const KEEPALIVE_MS = 330_000;

export interface WorkloadApiOptions {
  readonly path: string;
  /** The identity that the proxy announces to the control plane. */
  readonly announced: AnnouncedIdentity;
  readonly initialBackoffMs: number;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly counters: IdentityCounters;
  readonly log: Log;
}

/**
 * The path in an address such as unix:///run/spire/agent.sock. Throws CtlError invalid_argument.
 *
 * @param caAddress CA_ADDR
 * @param endpoint SPIFFE_ENDPOINT_SOCKET, which is used without CA_ADDR
 */
export function workloadApiPath(caAddress: string, endpoint: string): string {
  const field = caAddress === '' ? 'SPIFFE_ENDPOINT_SOCKET' : 'CA_ADDR';
  const address = caAddress || endpoint;
  const [, path = ''] = /^unix:(?:\/\/)?(\/(?!\/).*)$/.exec(address) ?? [];
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw new CtlError('invalid_argument', `the path of a Unix socket must have at most ${MAX_PATH_BYTES} bytes`, {
      field,
    });
  if (isAbsolute(path)) return path;
  const message = `${JSON.stringify(address)} is not the address of a socket, such as unix:///run/spire/agent.sock`;
  throw new CtlError('invalid_argument', message, { field });
}

export function createWorkloadApiSource(options: WorkloadApiOptions): SecretSource {
  const holder = createSecretHolder(options.log);
  return secretSource(holder, new WorkloadApi(options, holder));
}

class WorkloadApi {
  readonly #options: WorkloadApiOptions;
  readonly #holder: SecretHolder;
  readonly #stop = new AbortController();
  #client: GrpcClient | undefined;
  #running: Promise<void> = Promise.resolve();
  #identity: string | undefined;
  #expiry = { cancel: (): void => undefined };

  constructor(options: WorkloadApiOptions, holder: SecretHolder) {
    this.#options = options;
    this.#holder = holder;
  }

  start(): void {
    if (!this.#stop.signal.aborted) this.#running = this.#follow();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#client?.close();
    await this.#running;
    this.#expiry.cancel();
  }

  async #follow(): Promise<void> {
    const { clock, counters, log, random, initialBackoffMs } = this.#options;
    const { signal } = this.#stop;
    const state = createFailureLog(log, 'no new certificate', 'certificates can be issued again');
    let failures = 0;
    while (!signal.aborted) {
      if (failures > 0) counters.num_outgoing_retries++;
      try {
        await this.#stream(() => {
          failures = 0;
          state.succeeded();
        });
        if (!signal.aborted) throw new CtlError('unavailable', `${this.#options.path} has ended the stream`);
      } catch (error) {
        if (signal.aborted) return;
        counters.num_failed_outgoing_requests++;
        const expiresAt = this.#holder.current()?.certificate.expiresAt;
        this.#holder.failed(oneLineOf(error));
        state.failed(oneLineOf(error), expiresAt === undefined ? {} : { expires: new Date(expiresAt).toISOString() });
        failures++;
        await sleep(clock, retryDelay(failures, initialBackoffMs, random), signal);
      }
    }
  }

  /** Opens a stream, and applies what it sends until it ends. Rejects with CtlError. */
  async #stream(succeeded: () => void): Promise<void> {
    const { path, counters, clock } = this.#options;
    const options = { maxMessageBytes: MAX_MESSAGE_BYTES, keepaliveMs: KEEPALIVE_MS };
    const client = await openGrpcClient({ address: { path }, tls: undefined }, options);
    this.#client = client;
    const start = clock.now();
    counters.num_outgoing_requests++;
    let isSilent = false;
    const patience = clock.setTimer(FIRST_ANSWER_MS, () => {
      isSilent = true;
      client.close();
    });
    try {
      if (this.#stop.signal.aborted) return;
      const stream: BytesStream = client.stream(METHOD, METADATA);
      stream.end(X509SVIDRequest.encode({}).finish());
      let isFirst = true;
      for await (const message of stream) {
        if (isFirst) counters.outgoing_latency += Math.max(0, clock.now() - start);
        isFirst = false;
        patience.cancel();
        this.#apply(message as Buffer);
        succeeded();
      }
    } catch (error) {
      if (isSilent)
        throw new CtlError('unavailable', `${path} did not respond within ${FIRST_ANSWER_MS} ms`, {}, error);
      throw client.errorOf(error);
    } finally {
      patience.cancel();
      client.close();
    }
  }

  #apply(message: Buffer): void {
    const { announced, clock, log } = this.#options;
    const secrets = secretsIn(message, announced, clock.now());
    const named = spiffeIdOf(secrets);
    checkIdentity(named, announced);
    checkTrustDomain(named, announced.trustDomain);
    if (named !== this.#identity) log.info('the workload has a certificate of its identity', { identity: named });
    this.#identity = named;
    this.#holder.set(secrets);
    this.#watchExpiry(secrets);
  }

  /** Reports a certificate that the API has not replaced in time: the stream does not end by that. */
  #watchExpiry({ certificate: { expiresAt } }: WorkloadSecrets): void {
    const { clock, log } = this.#options;
    this.#expiry.cancel();
    this.#expiry = clock.setTimer(expiresAt - clock.now(), () =>
      log.error('the certificate has expired', { at: new Date(expiresAt).toISOString() }),
    );
  }
}

/** Throws CtlError invalid_argument for a message that is not usable. */
function secretsIn(message: Buffer, announced: AnnouncedIdentity, now: number): WorkloadSecrets {
  const { svids, federatedBundles } = decoded(() => X509SVIDResponse.decode(message));
  // A workload may have several identities: the one that the proxy announces, else the default.
  const fitting = svids.filter(({ spiffeId }) => isAnnounced(spiffeId, announced));
  const ofDomain = fitting.find(({ spiffeId }) => parseSpiffeUri(spiffeId)?.trustDomain === announced.trustDomain);
  const svid = ofDomain ?? fitting[0] ?? svids[0];
  if (svid === undefined) throw new CtlError('invalid_argument', 'the SPIFFE Workload API sent no identity');
  const key = decoded(() => createPrivateKey({ key: Buffer.from(svid.x509SvidKey), format: 'der', type: 'pkcs8' }))
    .export({ format: 'pem', type: 'pkcs8' })
    .toString();
  const roots = certificatesIn(svid.bundle);
  if (roots.length === 0) throw new CtlError('invalid_argument', 'the SPIFFE Workload API sent no roots');
  const secrets = secretsOf(key, certificatesIn(svid.x509Svid), roots.join(''), now);
  const federated = Object.entries(federatedBundles).flatMap(([id, bundle]) => {
    const domain = id.replace(/^spiffe:\/\//, '').replace(/\/.*$/, '');
    const pem = certificatesIn(bundle).join('');
    return domain === '' || pem === '' ? [] : [[domain, pem] as const];
  });
  return federated.length === 0 ? secrets : { ...secrets, federated: new Map(federated.sort()) };
}

/** Throws CtlError permission_denied without a SPIFFE ID, and for one of another trust domain than the operator's. */
function checkTrustDomain(named: string | undefined, set: string | undefined): asserts named is string {
  const domain = /^spiffe:\/\/([^/]+)/.exec(named ?? '')?.[1];
  if (domain === undefined)
    throw new CtlError('permission_denied', 'the certificate of the SPIFFE Workload API has no SPIFFE ID');
  if (set === undefined || domain === set) return;
  const message = `the SPIFFE Workload API knows this workload as ${named}, but the agent's trust domain is ${set}`;
  throw new CtlError('permission_denied', message);
}

function isAnnounced(id: string, { namespace, serviceAccount }: AnnouncedIdentity): boolean {
  const named = parseSpiffeUri(id);
  return named?.namespace === namespace && (serviceAccount ?? named.serviceAccount) === named.serviceAccount;
}

/** Converts concatenated DER certificates to PEM. */
function certificatesIn(der: Uint8Array): string[] {
  const found: string[] = [];
  for (let rest = Buffer.from(der.buffer, der.byteOffset, der.length); rest.length > 0; ) {
    const bytes = rest;
    const certificate = decoded(() => new X509Certificate(bytes));
    found.push(certificate.toString());
    rest = rest.subarray(certificate.raw.length);
  }
  return found;
}

function decoded<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    const message = `the response of the SPIFFE Workload API cannot be read: ${messageOf(error)}`;
    throw new CtlError('invalid_argument', message, {}, error);
  }
}
