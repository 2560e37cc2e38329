/** How long proxies wait for answers to what they ask for. */
import type { XdsType } from '../../core/xds-types.ts';

/** The types that a proxy asks for: virtual hosts, and clusters of TCP connections. */
const ASKED_TYPES = ['vhds', 'cds'] as const satisfies readonly XdsType[];
type AskedType = (typeof ASKED_TYPES)[number];

/** Times of asks that are kept for one proxy, which may ask as fast as it wants to. */
const MAX_KEPT = 1024;

interface SentMessage {
  readonly type: XdsType;
  /** Empty: the response only removes resources, which is no answer to an ask for a virtual host. */
  readonly message: { readonly body: readonly unknown[] };
}

export class AnswerTimes {
  /** When unanswered asks were received, monotonic ms. */
  readonly #waiting: Record<AskedType, number[]> = { vhds: [], cds: [] };
  /** The same of asks whose answers are being written. */
  #sent: readonly number[] = [];

  asked(type: AskedType, names: number, at: number): void {
    const waiting = this.#waiting[type];
    for (let name = 0; name < names && waiting.length < MAX_KEPT; name++) waiting.push(at);
  }

  /** Responses were made. A response has all answers that are due. */
  sent(messages: readonly SentMessage[]): void {
    const sent: number[] = [];
    for (const type of ASKED_TYPES)
      if (messages.some((each) => each.type === type && (type === 'cds' || each.message.body.length > 0)))
        sent.push(...this.#waiting[type].splice(0));
    this.#sent = sent;
  }

  /**
   * The responses have left for the socket. Returns how long each ask has waited, seconds.
   * @param now monotonic ms
   */
  written(now: number): readonly number[] {
    const seconds = this.#sent.map((at) => (now - at) / 1000);
    this.#sent = [];
    return seconds;
  }
}
