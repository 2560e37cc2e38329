/**
 * Configuration over xDS: as Delta where the server offers it, else as State of the World. No I/O.
 *
 * Servers that have no Delta end its stream with UNIMPLEMENTED. Others accept the stream, and never answer or fail,
 * because they offer it for the types of proxies only. State of the World is then requested until the program ends.
 */
import type { CtlError, CtlErrorCode } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { DeltaClient } from './delta-client.ts';
import type { ConfigProtocol, Received } from './protocol.ts';
import { XdsClient, type XdsClientOptions } from './xds-client.ts';

/** Codes that say nothing about what the server offers. */
const PASSING: readonly CtlErrorCode[] = ['unavailable', 'unauthenticated', 'permission_denied', 'resource_exhausted'];

const INSTEAD = 'State of the World is requested';

export class XdsConfig implements ConfigProtocol {
  readonly #options: XdsClientOptions;
  #client: DeltaClient | XdsClient;
  /** Whether the server has answered as Delta. */
  #isProven = false;

  constructor(options: XdsClientOptions) {
    this.#options = options;
    this.#client = new DeltaClient(options);
  }

  get path(): string {
    return this.#client.path;
  }

  get groups(): readonly string[] {
    return this.#client.groups;
  }

  open(): Uint8Array[] {
    return this.#client.open();
  }

  *receive(bytes: Buffer): Slices<Received> {
    const received = yield* this.#client.receive(bytes);
    this.#isProven ||= received.group !== undefined && received.problem === undefined;
    return received;
  }

  afterEnd({ code, message }: CtlError): string | undefined {
    if (code === 'unimplemented') return this.#withoutDelta(`the server does not offer Delta: ${INSTEAD}`);
    if (this.#isProven || PASSING.includes(code)) return undefined;
    return this.#withoutDelta(`the server has not answered as Delta: ${message}: ${INSTEAD}`);
  }

  afterSilence(): string | undefined {
    return this.#withoutDelta(`the server does not answer every type as Delta: ${INSTEAD}`);
  }

  #withoutDelta(line: string): string | undefined {
    if (this.#client instanceof XdsClient) return undefined;
    this.#client = new XdsClient(this.#options);
    return line;
  }
}
