/** The responses of one type on one stream that were sent, acknowledged and rejected, for the debug interface. */
import type { TypeStatus } from '../../push/index.ts';

/** Maximum number of names of rejected resources that are kept. */
const MAX_NAMES = 100;

/** Maximum number of characters of a NACK's message that are kept. */
const MAX_CHARACTERS = 4096;

/** A copy of the truncated message, which does not keep the longer one in memory. */
function shortened(message: string): string {
  if (message.length <= MAX_CHARACTERS) return message;
  return `${Buffer.from(message.slice(0, MAX_CHARACTERS)).toString()}…`;
}

/** The part of a status that this file provides. */
type Part = Omit<TypeStatus, 'subscribed' | 'current' | 'quarantined'>;

export class History {
  #sentNonce = '';
  #ackedNonce = '';
  #nackedNonce = '';
  #sentSnapshot = 0;
  #ackedSnapshot = 0;
  #completeSnapshot = 0;
  #current = false;
  #lastNack: TypeStatus['lastNack'];
  #messages = 0;
  #bytes = 0;

  get lastNonce(): string {
    return this.#sentNonce;
  }

  /** The message of the proxy's last NACK; '' if it has sent none. */
  get lastError(): string {
    return this.#lastNack?.message ?? '';
  }

  /** See `TypeStatus.versionComplete`. */
  get versionComplete(): number {
    return this.#completeSnapshot;
  }

  sent(nonce: string, snapshot: number): void {
    this.#sentNonce = nonce;
    this.#sentSnapshot = snapshot;
  }

  /** Counts bytes on the wire. */
  countBytes(bytes: number): void {
    this.#messages++;
    this.#bytes += bytes;
  }

  /** `complete`: the proxy has everything then. */
  acked(nonce: string, snapshot: number, complete: boolean): void {
    this.#ackedNonce = nonce;
    this.#ackedSnapshot = snapshot;
    if (complete) this.#completeSnapshot = snapshot;
  }

  nacked(nonce: string, message: string, atMs: number, resources: readonly string[]): void {
    this.#nackedNonce = nonce;
    this.#lastNack = { message: shortened(message), atMs, resources: resources.slice(0, MAX_NAMES) };
  }

  /** The proxy was found to be up to date without being sent anything. */
  foundCurrent(): void {
    this.#current = true;
  }

  status(): Part {
    return {
      nonceSent: this.#sentNonce,
      nonceAcked: this.#ackedNonce,
      resumedUpToDate: this.#sentNonce === '' && this.#current,
      nonceNacked: this.#nackedNonce,
      versionSent: this.#sentSnapshot,
      versionAcked: this.#ackedSnapshot,
      versionComplete: this.#completeSnapshot,
      lastNack: this.#lastNack,
      sentMessages: this.#messages,
      sentBytes: this.#bytes,
    };
  }
}
