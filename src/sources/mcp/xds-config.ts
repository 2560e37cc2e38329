/**
 * Configuration over xDS: as Delta where the server offers it, else as State of the World. No I/O.
 *
 * Servers that have no Delta end its stream with UNIMPLEMENTED. Others accept the stream, and never answer or fail,
 * because they offer it for the types of proxies only. State of the World is then requested: from the former until the
 * program ends; from the latter until the stream ends, because the server may only have been slow. The next stream is a
 * trial of Delta, of which there are few: every type has to be answered, with each document that is known.
 */
import type { CtlError, CtlErrorCode } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import { DeltaClient } from './delta-client.ts';
import type { ConfigProtocol, Received } from './protocol.ts';
import { XdsClient, type XdsClientOptions } from './xds-client.ts';

/** Codes that say nothing about what the server offers. */
const PASSING: readonly CtlErrorCode[] = ['unavailable', 'unauthenticated', 'permission_denied', 'resource_exhausted'];

/** Changes are late while a server without Delta is silent on the stream of a trial. */
const MAX_TRIALS = 3;

const INSTEAD = 'State of the World is requested';

export class XdsConfig implements ConfigProtocol {
  readonly #options: XdsClientOptions;
  #client: DeltaClient | XdsClient;
  /** Whether the server has answered to the client. */
  #isProven = false;
  /** Types that the stream of a trial has not answered. */
  readonly #unanswered = new Set<string>();
  #trials = 0;

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

  get awaited(): readonly string[] {
    return [...this.#unanswered];
  }

  open(): Uint8Array[] {
    if (this.#client instanceof XdsClient) return this.#client.open();
    const isTrial = this.#trials > 0 && !this.#isProven;
    if (isTrial) for (const group of this.groups) this.#unanswered.add(group);
    // The versions of State of the World need not be those of Delta: everything has to be sent again.
    return this.#client.open({ withVersions: !isTrial });
  }

  *receive(bytes: Buffer): Slices<Received> {
    const client = this.#client;
    const received = yield* client.receive(bytes);
    const { group, problem } = received;
    if (group === undefined || problem !== undefined || client !== this.#client) return received;
    if (client instanceof DeltaClient && !client.isAnswered(group)) return received;
    this.#unanswered.delete(group);
    this.#isProven ||= this.#unanswered.size === 0;
    return received;
  }

  afterEnd({ code, message }: CtlError): string | undefined {
    if (this.#client instanceof XdsClient) {
      if (this.#isProven && this.#trials < MAX_TRIALS) {
        this.#trials += 1;
        this.#use(new DeltaClient(this.#options));
      }
      return undefined;
    }
    if (code === 'unimplemented') {
      this.#trials = MAX_TRIALS;
      return this.#withoutDelta(`the server does not offer Delta: ${INSTEAD}`);
    }
    const isUnfinished = this.#unanswered.size > 0;
    if (this.#isProven || (PASSING.includes(code) && !isUnfinished)) return undefined;
    return this.#withoutDelta(`the server has not answered as Delta: ${message}: ${INSTEAD}`);
  }

  afterSilence(): string | undefined {
    if (this.#client instanceof XdsClient) return undefined;
    return this.#withoutDelta(`the server does not answer every type as Delta: ${INSTEAD}`);
  }

  #withoutDelta(line: string): string {
    this.#use(new XdsClient(this.#options));
    return line;
  }

  #use(client: DeltaClient | XdsClient): void {
    this.#client = client;
    this.#isProven = false;
    this.#unanswered.clear();
  }
}
