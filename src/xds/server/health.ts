/**
 * The standard gRPC health service, for load balancers and probes of the xDS port.
 * Source: https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
import { CtlError } from '../../core/errors.ts';
import { type GrpcService, PerAddressLimiter, prefixed, type StreamCall, type UnaryCall } from '../../grpc/index.ts';
import { encodeFields, WireReader } from '../../protobuf/wire/index.ts';
import { oneRequest } from './one-request.ts';
import { HEALTH_PATHS } from './services.ts';

/** HealthCheckResponse.ServingStatus. */
const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

/** HealthCheckResponse {status 1}. */
function response(value: number): Buffer {
  return Buffer.from([0x08, value]);
}

/** HealthCheckRequest {service 1}. */
export function encodeHealthRequest(service: string): Buffer {
  return service === '' ? Buffer.alloc(0) : encodeFields([[1, service]]);
}

/** Throws CtlError invalid_argument. */
function serviceOf(bytes: Buffer): string {
  let service = '';
  const reader = new WireReader(bytes);
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 1) service = reader.text(field);
  return service;
}

/** Maximum size of a request, which is the name of a service. */
const MAX_REQUEST_BYTES = 1024;

/**
 * Maximum number of watches; a load balancer has one on each connection. Anyone may watch, so no single address gets
 * all of them.
 */
const MAX_WATCHERS = 1000;

/** Maximum number of watches of one connection: only two services can be watched. */
const MAX_WATCHERS_OF_CONNECTION = 16;

export interface HealthOptions {
  /** Services that can be checked, in addition to the whole server. */
  readonly services: readonly string[];
  /** A watch whose request is not complete after this time, ms, is refused. */
  readonly requestTimeoutMs: number;
  /** Called when a watch is refused. */
  readonly refused: (peer: string, error: CtlError) => void;
}

/** Health of the server and its services; `''` is the server as a whole. */
export class Health {
  readonly #services: ReadonlySet<string>;
  readonly #options: HealthOptions;
  readonly #limiter = new PerAddressLimiter(MAX_WATCHERS);
  /** Number of watches, by connection. */
  readonly #watches = new WeakMap<object, number>();
  /** All watches, even while their request is read. */
  readonly #calls = new Set<StreamCall>();
  /** Watches of known services: they are sent changes. */
  readonly #watchers = new Set<StreamCall>();
  #serving = false;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#services = new Set(['', ...options.services]);
  }

  /** The service, for the gRPC server. */
  service(): GrpcService {
    return {
      unary: { [HEALTH_PATHS.check]: { handler: this.#check, maxReceiveBytes: MAX_REQUEST_BYTES } },
      streams: { [HEALTH_PATHS.watch]: this.#watch },
    };
  }

  /** Sets the status, and sends a change to all watchers. */
  setServing(serving: boolean): void {
    if (serving === this.#serving) return;
    this.#serving = serving;
    for (const call of this.#watchers) this.#send(call, this.#status);
  }

  get #status(): number {
    return this.#serving ? SERVING : NOT_SERVING;
  }

  readonly #check = async (call: UnaryCall): Promise<Buffer> => {
    if (!this.#services.has(serviceOf(call.request))) throw new CtlError('not_found', 'unknown service');
    return response(this.#status);
  };

  readonly #watch = (call: StreamCall): void => {
    const leave = this.#enter(call);
    if (leave === undefined) {
      const error = new CtlError(
        'resource_exhausted',
        'too many health watches on this connection, from this address, or in total',
      );
      this.#options.refused(call.connection.peer, error);
      call.end(error);
      return;
    }
    this.#calls.add(call);
    call.onClose(() => {
      leave();
      this.#calls.delete(call);
      this.#watchers.delete(call);
    });
    oneRequest(call, { maxBytes: MAX_REQUEST_BYTES, timeoutMs: this.#options.requestTimeoutMs })
      .then((request) => this.#answer(call, serviceOf(request)))
      .catch((error: unknown) =>
        call.end(error instanceof CtlError ? error : new CtlError('internal', 'internal error', {}, error)),
      );
  };

  /**
   * @returns a function to call when the watch ends; undefined if there are too many
   */
  #enter({ connection }: StreamCall): (() => void) | undefined {
    const before = this.#watches.get(connection) ?? 0;
    const leave = before < MAX_WATCHERS_OF_CONNECTION ? this.#limiter.enter(connection.address) : undefined;
    if (leave === undefined) return undefined;
    this.#watches.set(connection, before + 1);
    return () => {
      leave();
      this.#watches.set(connection, (this.#watches.get(connection) ?? 1) - 1);
    };
  }

  #answer(call: StreamCall, service: string): void {
    // It may have ended meanwhile.
    if (!this.#calls.has(call)) return;
    const known = this.#services.has(service);
    if (known) this.#watchers.add(call);
    this.#send(call, known ? this.#status : SERVICE_UNKNOWN);
  }

  #send(call: StreamCall, value: number): void {
    call.write([prefixed(response(value))], (result) => {
      if (result === 'timeout') call.abort();
    });
  }

  /** Ends all watches. */
  close(): void {
    this.setServing(false);
    for (const call of this.#calls) call.end();
    this.#calls.clear();
    this.#watchers.clear();
  }
}
