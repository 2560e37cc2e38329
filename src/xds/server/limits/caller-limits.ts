/** The limits of the memory that the streams of each caller take, for all streams of a server. */
import { NameQuota, type StreamNames } from './name-quota.ts';
import { type CallerBytes, UnsentBytes } from './unsent-bytes.ts';

export class CallerLimits {
  readonly #unsent: UnsentBytes;
  readonly #names: NameQuota;

  constructor(unsent = new UnsentBytes(), names = new NameQuota()) {
    this.#unsent = unsent;
    this.#names = names;
  }

  /** A stream of the caller begins. */
  enter(caller: string): StreamLimits {
    return { unsent: this.#unsent.enter(caller), names: this.#names.enter(caller) };
  }
}

/** The limits of one stream. */
export interface StreamLimits {
  /** Responses that have not left, of all streams of the caller. */
  readonly unsent: CallerBytes;
  /** Names that this stream subscribes to. */
  readonly names: StreamNames;
}
