/**
 * Passes calls of the policy component on: Envoy asks for decisions and sends records where it gets its configuration,
 * and without certificates that is the agent. All calls share one connection to the control plane, with the workload's
 * certificate. A call whose connection fails fails; the next one uses a new connection, to the next address.
 *
 *   Envoy ─▶ XDS_LOCAL ─▶ call ─▶ connection ─▶ XDS_UPSTREAM
 */
import type { Timer } from '../../core/clock.ts';
import { CtlError, toCtlError } from '../../core/errors.ts';
import { createFailureLog, type FailureLog, type Log } from '../../core/log.ts';
import { POLICY_METHODS, POLICY_NAMESPACE_METADATA } from '../../core/proxy.ts';
import type { WallClock } from '../../core/wall-clock.ts';
import {
  type BytesStream,
  endWithError,
  type GrpcClient,
  type GrpcClientOptions,
  type GrpcTarget,
  type ServedMethod,
  type ServerStream,
} from '../grpc/index.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import type { SecretSource } from '../types.ts';
import { toGrpcTarget } from './upstream.ts';

/** A method, and its limits: those of the control plane, and more streams than the threads of an Envoy open. */
interface Method {
  readonly path: string;
  readonly streams: number;
  readonly messageBytes: number;
  /** Longer than Envoy waits for a decision; absent: the call may last. */
  readonly timeoutMs?: number;
}

const METHODS: readonly Method[] = [
  { path: POLICY_METHODS.check, streams: 2_048, messageBytes: 256 * 1024, timeoutMs: 10_000 },
  { path: POLICY_METHODS.records, streams: 256, messageBytes: 1024 * 1024 },
];

/** Bytes of the messages of all calls that are not written to the control plane yet. */
const MAX_HELD_BYTES = 32 * 1024 * 1024;
/** Responses are decisions; a longer one is refused. */
const MAX_RESPONSE_BYTES = 1024 * 1024;
const KEEPALIVE_MS = 30_000;
/** A connection that fails is replaced after this time at the earliest, so that a busy Envoy does not open thousands. */
const MIN_CONNECTION_MS = 1_000;
/** Time for the calls of a connection that was replaced. */
const DRAIN_MS = 10_000;

export interface PolicyCallsOptions {
  /** The addresses are tried in turn, beginning with a random one. */
  readonly addresses: readonly ControlPlane[];
  /** The workload's certificate; needed for addresses with TLS. */
  readonly secrets: SecretSource | undefined;
  /** SPIFFE ID that the certificate of the policy component must have; undefined: the name of its address. */
  readonly serverId: string | undefined;
  readonly openClient: (target: GrpcTarget, options: GrpcClientOptions) => Promise<GrpcClient>;
  readonly clock: WallClock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  readonly log: Log;
}

interface Link {
  readonly client: GrpcClient;
  readonly address: ControlPlane;
  calls: number;
  /** Set when the link was replaced. */
  drain?: Timer;
}

interface Opening {
  readonly link: Promise<Link>;
  /** The certificate chain with which it was opened. */
  readonly chain: string | undefined;
  readonly since: number;
}

export class PolicyCalls {
  readonly #options: PolicyCallsOptions;
  readonly #failures: FailureLog;
  readonly #draining = new Set<Link>();
  #opening: Opening | undefined;
  #address: number;
  #heldBytes = 0;
  #closed = false;

  constructor(options: PolicyCallsOptions) {
    this.#options = options;
    this.#address = Math.floor(options.random() * options.addresses.length);
    this.#failures = createFailureLog(
      options.log,
      'decisions and records of the policy component cannot reach the control plane',
      'decisions and records of the policy component reach the control plane again',
    );
  }

  /** For the server on which Envoy calls. */
  methods(): Readonly<Record<string, ServedMethod>> {
    return Object.fromEntries(
      METHODS.map((method) => [
        method.path,
        { streams: method.streams, serve: (stream: ServerStream) => void this.#serve(stream, method) },
      ]),
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    const current = await this.#opening?.link.catch(() => undefined);
    for (const link of [...this.#draining, ...(current === undefined ? [] : [current])]) this.#end(link);
  }

  async #serve(stream: ServerStream, method: Method): Promise<void> {
    // What ends a call is handled below; grpc-js emits it here as well.
    stream.on('error', () => undefined);
    try {
      const link = await this.#link();
      if (!stream.cancelled) this.#pass(stream, link, method);
    } catch (error) {
      const known = toCtlError(error);
      this.#failures.failed(known.oneLine());
      endWithError(stream, known);
    }
  }

  #pass(stream: ServerStream, link: Link, { path, messageBytes, timeoutMs }: Method): void {
    const call = link.client.stream(path, metadataOf(stream));
    link.calls++;
    let ended = false;
    const end = (error?: CtlError): void => {
      if (ended) return;
      ended = true;
      late?.cancel();
      call.cancel();
      if (error === undefined) stream.end();
      else endWithError(stream, error);
      link.calls--;
      if (link.drain !== undefined && link.calls === 0) this.#end(link);
    };
    const late =
      timeoutMs === undefined
        ? undefined
        : this.#options.clock.setTimer(timeoutMs, () =>
            end(new CtlError('deadline_exceeded', `no decision within ${timeoutMs / 1000} s`)),
          );
    stream.on('data', (bytes: Buffer) => {
      if (ended) return;
      if (bytes.length > messageBytes || this.#heldBytes + bytes.length > MAX_HELD_BYTES)
        end(new CtlError('resource_exhausted', 'the message is too long, or too many are waiting'));
      else if (!this.#write(call, bytes)) stream.pause();
    });
    stream.on('end', () => void call.end());
    stream.on('cancelled', () => end());
    stream.on('drain', () => void call.resume());
    call.on('drain', () => void stream.resume());
    call.on('data', (bytes: Buffer) => {
      this.#failures.succeeded();
      if (!ended && !stream.write(bytes)) call.pause();
    });
    call.on('end', () => end());
    call.on('error', (error) => {
      const known = link.client.errorOf(error);
      // A component that has no decision answers UNAVAILABLE, and ends streams with it: its connection works.
      if (!ended && !link.client.isStatusOfServer(error)) this.#failed(link, known);
      end(known);
    });
  }

  #write(call: BytesStream, bytes: Buffer): boolean {
    this.#heldBytes += bytes.length;
    return call.write(bytes, () => {
      this.#heldBytes -= bytes.length;
    });
  }

  /** The connection with the current certificate. */
  #link(): Promise<Link> {
    const { addresses, secrets, serverId, openClient, clock } = this.#options;
    const address = addresses[this.#address % addresses.length];
    const own = secrets?.current();
    if (address === undefined || this.#closed) return Promise.reject(new CtlError('unavailable', 'the agent ends'));
    if (address.tls && own === undefined)
      return Promise.reject(new CtlError('unavailable', 'the workload has no certificate yet'));
    const chain = own?.certificate.chain;
    if (this.#opening !== undefined && this.#opening.chain === chain) return this.#opening.link;
    this.#retire();
    const open = async (): Promise<Link> => {
      const target = toGrpcTarget(address, own, serverId);
      const client = await openClient(target, { maxMessageBytes: MAX_RESPONSE_BYTES, keepaliveMs: KEEPALIVE_MS });
      return { client, address, calls: 0 };
    };
    const link = open();
    this.#opening = { link, chain, since: clock.now() };
    link.catch(() => {
      if (this.#opening?.link === link) this.#opening = undefined;
    });
    return link;
  }

  #failed({ address }: Link, error: CtlError): void {
    const { addresses, clock } = this.#options;
    this.#failures.failed(error.oneLine(), { address: `${address.host}:${address.port}` });
    const isCurrent = addresses[this.#address % addresses.length] === address;
    if (!isCurrent || this.#opening === undefined || clock.now() - this.#opening.since < MIN_CONNECTION_MS) return;
    this.#address++;
    this.#retire();
  }

  /** Replaces the connection: its calls continue for a while. */
  #retire(): void {
    const before = this.#opening;
    this.#opening = undefined;
    void before?.link.then(
      (link) => {
        this.#draining.add(link);
        link.drain = this.#options.clock.setTimer(DRAIN_MS, () => this.#end(link));
        if (link.calls === 0 || this.#closed) this.#end(link);
      },
      () => undefined,
    );
  }

  #end(link: Link): void {
    link.drain?.cancel();
    this.#draining.delete(link);
    link.client.close();
  }
}

/** In plain text, the control plane takes the namespace from it. */
function metadataOf({ metadata }: ServerStream): Readonly<Record<string, string>> {
  const [namespace] = metadata.get(POLICY_NAMESPACE_METADATA);
  return namespace === undefined ? {} : { [POLICY_NAMESPACE_METADATA]: namespace.toString() };
}
