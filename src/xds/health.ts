/**
 * The standard gRPC health service, so that load balancers and probes can ask on the xDS port itself.
 * Source: https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
import { type ServerUnaryCall, type ServerWritableStream, type sendUnaryData, status } from '@grpc/grpc-js';
import { CtlError } from '../core/errors.ts';
import { encodeStrings, WireReader } from './wire.ts';

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
  return service === '' ? Buffer.alloc(0) : encodeStrings([{ number: 1, text: service }]);
}

function serviceOf(bytes: Buffer): string {
  let service = '';
  const reader = new WireReader(bytes);
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number === 1) service = reader.text(field);
  return service;
}

/** Anyone may watch; a load balancer does once per connection. */
const MAX_WATCHERS = 1000;

type WatchCall = ServerWritableStream<Buffer, Buffer>;

/** Health of the server and of the services it names; `''` is the server as a whole. */
export class Health {
  readonly #services: ReadonlySet<string>;
  readonly #watchers = new Set<WatchCall>();
  /** Those who watch a service that is not here. */
  readonly #strangers = new Set<WatchCall>();
  #serving = false;

  constructor(services: readonly string[]) {
    this.#services = new Set(['', ...services]);
  }

  /** Says whether requests are served; watchers hear of changes. */
  setServing(serving: boolean): void {
    if (serving === this.#serving) return;
    this.#serving = serving;
    for (const call of this.#watchers) call.write(response(this.#status));
  }

  get #status(): number {
    return this.#serving ? SERVING : NOT_SERVING;
  }

  readonly check = (call: ServerUnaryCall<Buffer, Buffer>, reply: sendUnaryData<Buffer>): void => {
    try {
      if (this.#services.has(serviceOf(call.request))) reply(null, response(this.#status));
      else reply({ code: status.NOT_FOUND, details: 'unknown service' });
    } catch (error) {
      reply({ code: status.INVALID_ARGUMENT, details: error instanceof CtlError ? error.message : 'bad request' });
    }
  };

  readonly watch = (call: WatchCall): void => {
    try {
      if (!this.#services.has(serviceOf(call.request))) {
        this.#keep(this.#strangers, call, SERVICE_UNKNOWN);
        return;
      }
    } catch (error) {
      call.emit('error', {
        code: status.INVALID_ARGUMENT,
        details: error instanceof CtlError ? error.message : 'bad request',
      });
      return;
    }
    this.#keep(this.#watchers, call, this.#status);
  };

  #keep(set: Set<WatchCall>, call: WatchCall, value: number): void {
    if (this.#watchers.size + this.#strangers.size >= MAX_WATCHERS) {
      call.emit('error', { code: status.RESOURCE_EXHAUSTED, details: `${MAX_WATCHERS} watch already` });
      return;
    }
    set.add(call);
    const gone = (): void => void set.delete(call);
    call.once('cancelled', gone);
    call.once('close', gone);
    call.write(response(value));
  }

  /** Ends all watches. */
  close(): void {
    this.setServing(false);
    for (const set of [this.#watchers, this.#strangers]) {
      for (const call of set) call.end();
      set.clear();
    }
  }
}
