/**
 * Streams to the control plane. Each has a connection of its own, so that it starts with the certificate of that
 * moment. A stream that ends is opened again, at the next address, after a delay that grows while none answers.
 */
import { backoff } from '../../core/backoff.ts';
import { sleep, type Timer } from '../../core/clock.ts';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import type { BytesStream, GrpcClient, GrpcClientOptions, GrpcTarget } from '../grpc/index.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import type { SecretSource, WorkloadSecrets } from '../types.ts';
import type { Variant } from './messages.ts';

/** The methods of the discovery service. */
export const XDS_PATHS: Readonly<Record<Variant, string>> = {
  sotw: '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
  delta: '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
};

/** A response has all resources of a type at first: in a large mesh tens of megabytes. Longer ones are refused. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
/** A control plane that is frozen or cut off is noticed within 40 s, as Envoy's own connection does. */
const KEEPALIVE_MS = 30_000;
/** A TCP connection takes milliseconds, which the kernel of a busy control plane accepts for it. */
const CONNECT_MS = 5_000;
/**
 * Time for the TLS handshake: when thousands of proxies connect at once, each waits for its turn. A new attempt would
 * wait behind all others. meshd closes handshakes that take longer.
 */
const HANDSHAKE_MS = 30_000;
/** The same where there is another address, which may be less busy. */
const HANDSHAKE_BESIDE_OTHERS_MS = 10_000;
/** After this time, proxies are served from the snapshot while connecting goes on. */
const PATIENCE_MS = 5_000;
/** A first certificate takes less than a second when the authority is reachable and not busy. */
const SECRETS_TIMEOUT_MS = 5_000;
/** Delays between attempts, those of Envoy's bootstrap. */
const BACKOFF_BASE_MS = 500;
const BACKOFF_MAX_MS = 5_000;
/** A random delay in the upper half, so that not all agents of a mesh connect at once. */
const BACKOFF_JITTER = 0.5;
/** After a rotation, connections with the older certificate are replaced within this time, each at a random moment. */
const CONNECTION_AGE_MS = 600_000;
/** … and before this share of the older certificate's remaining lifetime has passed. */
const EXPIRY_SHARE = 0.9;
/**
 * A stream that lasts this long counts as accepted even without a response: the proxy may be up to date. Longer than a
 * proxy waits for its first response.
 */
const STABLE_MS = 35_000;

/** The dependencies of a stream, and the state that all streams of an agent share. */
export interface UpstreamOptions {
  /** The addresses are tried in turn, beginning with a random one. */
  readonly addresses: readonly ControlPlane[];
  /** The workload's certificate; needed for addresses with TLS, which wait for it. */
  readonly secrets: SecretSource | undefined;
  readonly openClient: (target: GrpcTarget, options: GrpcClientOptions) => Promise<GrpcClient>;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** An open stream. */
export interface UpstreamLink {
  /** Returns false when the caller should wait for `drained`. */
  write(bytes: Buffer): boolean;
  /** Stops and continues reading. */
  pause(): void;
  resume(): void;
}

export interface UpstreamHandlers {
  /** Called when a new stream is open. */
  attached(link: UpstreamLink): void;
  /** The control plane has kept the stream open for {@link STABLE_MS}, with or without a response. */
  stable(): void;
  message(bytes: Buffer): void;
  drained(): void;
  /** Called when the stream has ended. Another one is opened. */
  detached(): void;
  /** No stream could be opened, there is no certificate for one, or one has ended without a response. */
  failed(): void;
}

export interface UpstreamStream {
  /** Ends the open stream because of its content; another one is opened. */
  fail(error: CtlError): void;
  close(): Promise<void>;
}

export interface Upstream {
  /** Opens a stream, and another one whenever it ends. */
  open(variant: Variant, handlers: UpstreamHandlers): UpstreamStream;
  /** Whether any stream is open; `since`: epoch ms of the last change. */
  state(): { readonly connected: boolean; readonly since: number };
  /** Number of failed attempts and streams. */
  failures(): number;
}

export function createUpstream(options: UpstreamOptions): Upstream {
  return new SharedUpstream(options);
}

/** The state that the streams share: the working address, and the status for operators. */
class SharedUpstream implements Upstream {
  readonly options: UpstreamOptions;
  readonly log: FailureLog;
  #address: number;
  #open = 0;
  #failures = 0;
  #since: number;

  constructor(options: UpstreamOptions) {
    this.options = options;
    this.#address = Math.floor(options.random() * options.addresses.length);
    this.#since = options.clock.now();
    this.log = createFailureLog(
      options.log,
      'the control plane cannot be reached; Envoy keeps its configuration',
      'the control plane is reachable again',
    );
  }

  open(variant: Variant, handlers: UpstreamHandlers): UpstreamStream {
    return new Stream(this, variant, handlers);
  }

  state(): { readonly connected: boolean; readonly since: number } {
    return { connected: this.#open > 0, since: this.#since };
  }

  failures(): number {
    return this.#failures;
  }

  current(): ControlPlane {
    const { addresses } = this.options;
    const address = addresses[this.#address % addresses.length];
    if (address === undefined) throw new CtlError('invalid_argument', 'no address', { field: 'XDS_UPSTREAM' });
    return address;
  }

  /** Counts and logs a failure. All streams use the next address then, unless another one has moved on already. */
  failedAt(address: ControlPlane, reason: string): void {
    this.#failures++;
    this.log.failed(reason, { address: `${address.host}:${address.port}` });
    if (address === this.current()) this.#address++;
  }

  /** Counts open streams. */
  changed(by: 1 | -1): void {
    const before = this.#open > 0;
    this.#open += by;
    if (before !== this.#open > 0) this.#since = this.options.clock.now();
  }
}

interface Outcome {
  /** Whether the control plane has responded on the stream, or kept it open for {@link STABLE_MS}. */
  readonly proved: boolean;
  readonly reason: string;
}

class Stream implements UpstreamStream {
  readonly #shared: SharedUpstream;
  readonly #variant: Variant;
  readonly #handlers: UpstreamHandlers;
  readonly #closed = new AbortController();
  readonly #running: Promise<void>;
  /** Closes the open connection. */
  #end: (outcome: Outcome) => void = () => undefined;
  #proved = false;

  constructor(shared: SharedUpstream, variant: Variant, handlers: UpstreamHandlers) {
    this.#shared = shared;
    this.#variant = variant;
    this.#handlers = handlers;
    this.#running = this.#run();
  }

  fail(error: CtlError): void {
    this.#end({ proved: false, reason: error.oneLine() });
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#end({ proved: this.#proved, reason: 'closed' });
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, random, secrets, log } = this.#shared.options;
    const { signal } = this.#closed;
    let failures = 0;
    while (!signal.aborted) {
      const address = this.#shared.current();
      if (address.tls && secrets !== undefined && secrets.current() === undefined) {
        await this.#waitForSecrets(secrets, signal);
        continue;
      }
      const { proved, reason } = await this.#connect(address, secrets?.current()).catch(
        (error: unknown): Outcome => ({ proved: false, reason: oneLineOf(error) }),
      );
      if (signal.aborted) return;
      failures = proved ? 1 : failures + 1;
      if (proved) log.debug(`a connection to the control plane has ended: ${reason}`);
      else {
        this.#shared.failedAt(address, reason);
        this.#handlers.failed();
      }
      await sleep(clock, backoff(failures, BACKOFF_BASE_MS, BACKOFF_MAX_MS, random, BACKOFF_JITTER), signal);
    }
  }

  /** The certificate authority may be unreachable, too: proxies are served from the snapshot meanwhile. */
  async #waitForSecrets(secrets: SecretSource, signal: AbortSignal): Promise<void> {
    const late = this.#shared.options.clock.setTimer(SECRETS_TIMEOUT_MS, () => {
      this.#shared.log.failed('the workload has no certificate yet');
      this.#handlers.failed();
    });
    await nextSecrets(secrets, signal);
    late.cancel();
  }

  /** Opens one connection with one stream; resolves when it has ended, rejects when there is none. */
  async #connect(address: ControlPlane, secrets: WorkloadSecrets | undefined): Promise<Outcome> {
    const options = { maxMessageBytes: MAX_RESPONSE_BYTES, keepaliveMs: KEEPALIVE_MS };
    const aborted = Promise.withResolvers<'closed'>();
    const abort = (): void => aborted.resolve('closed');
    const { openClient, addresses, clock } = this.#shared.options;
    const handshakeMs = addresses.length > 1 ? HANDSHAKE_BESIDE_OTHERS_MS : HANDSHAKE_MS;
    const client = await openClient(toGrpcTarget(address, secrets), options);
    const late = clock.setTimer(PATIENCE_MS, () => this.#handlers.failed());
    try {
      const stream = client.stream(XDS_PATHS[this.#variant]);
      const ended = waitForEnd(stream, client);
      try {
        this.#closed.signal.addEventListener('abort', abort);
        const ready = client.ready({ connectMs: CONNECT_MS, handshakeMs });
        const first = await Promise.race([ready, ended, aborted.promise]);
        late.cancel();
        if (first === 'closed' || this.#closed.signal.aborted) return { proved: false, reason: 'closed' };
        if (first instanceof CtlError) throw first;
        if (first !== 'ready') {
          const limitMs = first === 'no connection' ? CONNECT_MS : handshakeMs;
          throw new CtlError('unavailable', `${first} within ${limitMs / 1000} s`);
        }
        return await this.#serve(stream, ended, secrets);
      } finally {
        this.#closed.signal.removeEventListener('abort', abort);
        stream.cancel();
      }
    } finally {
      late.cancel();
      client.close();
    }
  }

  /** Passes messages until the stream ends. */
  async #serve(stream: BytesStream, ended: Promise<CtlError>, secrets: WorkloadSecrets | undefined): Promise<Outcome> {
    const shared = this.#shared;
    const { clock } = shared.options;
    const outcome = Promise.withResolvers<Outcome>();
    this.#end = outcome.resolve;
    this.#proved = false;
    const prove = (): void => {
      this.#proved = true;
      shared.log.succeeded();
    };
    const stopAging = replaceAfterRotation(shared.options, secrets, () => {
      shared.options.log.info('the certificate was renewed; replacing the connection to the control plane');
      outcome.resolve({ proved: true, reason: 'the certificate was renewed' });
    });
    const stable = clock.setTimer(STABLE_MS, () => {
      prove();
      this.#handlers.stable();
    });
    void ended.then((error) => outcome.resolve({ proved: this.#proved, reason: error.oneLine() }));
    shared.changed(1);
    try {
      this.#handlers.attached({
        write: (bytes) => stream.write(bytes),
        pause: () => void stream.pause(),
        resume: () => void stream.resume(),
      });
      stream.on('drain', () => this.#handlers.drained());
      stream.on('data', (bytes: Buffer) => {
        if (!this.#proved) prove();
        this.#handlers.message(bytes);
      });
      return await outcome.promise;
    } finally {
      stream.removeAllListeners('data');
      stopAging();
      stable.cancel();
      shared.changed(-1);
      this.#handlers.detached();
    }
  }
}

/** @param serverId SPIFFE ID that the certificate must have in place of the address's name */
export function toGrpcTarget(
  { host, port, tls, serverName }: ControlPlane,
  secrets: WorkloadSecrets | undefined,
  serverId?: string,
): GrpcTarget {
  const address = { host, port };
  if (!tls || secrets === undefined) return { address, tls: undefined };
  const { key, chain } = secrets.certificate;
  return { address, tls: { serverName, serverId, roots: secrets.roots, client: { key, chain } } };
}

/** Resolves with the error when a stream has ended. */
function waitForEnd(stream: BytesStream, client: GrpcClient): Promise<CtlError> {
  return new Promise((resolve) => {
    stream.on('error', (error) => resolve(client.errorOf(error)));
    stream.on('end', () => resolve(new CtlError('unavailable', 'the control plane has ended the stream')));
  });
}

/** Resolves when there are secrets or when the signal aborts. */
function nextSecrets(secrets: SecretSource, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stop();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const stop = secrets.onChange(done);
    signal.addEventListener('abort', done);
    if (signal.aborted || secrets.current() !== undefined) done();
  });
}

/**
 * Calls `replace` at a random time after the certificate of a connection was renewed, and before it expires. Returns
 * the function that stops it.
 */
function replaceAfterRotation(
  { secrets, clock, random }: UpstreamOptions,
  used: WorkloadSecrets | undefined,
  replace: () => void,
): () => void {
  if (secrets === undefined || used === undefined) return () => undefined;
  let timer: Timer | undefined;
  const stop = secrets.onChange((next) => {
    if (timer !== undefined || next.certificate.chain === used.certificate.chain) return;
    const left = Math.max(0, used.certificate.expiresAt - clock.now());
    timer = clock.setTimer(Math.min(CONNECTION_AGE_MS, left * EXPIRY_SHARE) * random(), replace);
  });
  return () => {
    stop();
    timer?.cancel();
  };
}
