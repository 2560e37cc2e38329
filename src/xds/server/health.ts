/**
 * The standard gRPC health service, so that load balancers and probes can ask on the xDS port itself.
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

/** A request is the name of a service. */
const MAX_REQUEST_BYTES = 1024;

/** Anyone may watch, so that no single address gets all of these; a load balancer watches once per connection. */
const MAX_WATCHERS = 1000;

/** Watches of one connection: what is served here are two names. */
const MAX_WATCHERS_OF_CONNECTION = 16;

export interface HealthOptions {
  /** The services that are asked about, besides the server as a whole. */
  readonly services: readonly string[];
  /** A watcher who has not said after this long, ms, what he watches is refused. */
  readonly requestTimeoutMs: number;
  /** Tells of a watcher who is turned away. */
  readonly refused: (peer: string, error: CtlError) => void;
}

/** Health of the server and of the services it names; `''` is the server as a whole. */
export class Health {
  readonly #services: ReadonlySet<string>;
  readonly #options: HealthOptions;
  readonly #places = new PerAddressLimiter(MAX_WATCHERS);
  /** By connection. */
  readonly #watches = new WeakMap<object, number>();
  /** All who watch, or are about to say what. */
  readonly #calls = new Set<StreamCall>();
  /** Those of them who hear of changes: not who watches a service that is not here. */
  readonly #watchers = new Set<StreamCall>();
  #serving = false;

  constructor(options: HealthOptions) {
    this.#options = options;
    this.#services = new Set(['', ...options.services]);
  }

  /** As a server takes it. */
  service(): GrpcService {
    return {
      unary: { [HEALTH_PATHS.check]: { handler: this.#check, maxReceiveBytes: MAX_REQUEST_BYTES } },
      streams: { [HEALTH_PATHS.watch]: this.#watch },
    };
  }

  /** Says whether requests are served; watchers hear of changes. */
  setServing(serving: boolean): void {
    if (serving === this.#serving) return;
    this.#serving = serving;
    for (const call of this.#watchers) this.#tell(call, this.#status);
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
        'too many watches of health of this connection, this address, or in all',
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

  /** @returns what to call when the watch is over; undefined when it cannot be taken */
  #enter({ connection }: StreamCall): (() => void) | undefined {
    const before = this.#watches.get(connection) ?? 0;
    const leave = before < MAX_WATCHERS_OF_CONNECTION ? this.#places.enter(connection.address) : undefined;
    if (leave === undefined) return undefined;
    this.#watches.set(connection, before + 1);
    return () => {
      leave();
      this.#watches.set(connection, (this.#watches.get(connection) ?? 1) - 1);
    };
  }

  #answer(call: StreamCall, service: string): void {
    // It may be over by now.
    if (!this.#calls.has(call)) return;
    const known = this.#services.has(service);
    if (known) this.#watchers.add(call);
    this.#tell(call, known ? this.#status : SERVICE_UNKNOWN);
  }

  #tell(call: StreamCall, value: number): void {
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
