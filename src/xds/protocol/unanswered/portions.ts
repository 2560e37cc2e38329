/**
 * Names of a subscription that no response has answered yet, if they are many: each response answers a portion of them,
 * so that no request takes long, however many names it has.
 */
import { CtlError } from '../../../core/errors.ts';
import { MAX_SUBSCRIBED_NAMES } from '../interest.ts';

/** Maximum number of newly subscribed names that a response answers: more than a proxy usually adds at a time. */
export const PORTION = 10_000;

interface Waiting {
  readonly names: Iterator<string>;
  /** The number of names that were not looked at yet. */
  left: number;
}

export class Portions {
  readonly #waiting: Waiting[] = [];

  get empty(): boolean {
    return this.#waiting.length === 0;
  }

  /** The names are not changed meanwhile. */
  add(names: ReadonlySet<string> | readonly string[]): void {
    this.#waiting.push({ names: names[Symbol.iterator](), left: countOf(names) });
  }

  /** The same for names that the proxy requests, possibly repeatedly without reading responses. */
  request(names: ReadonlySet<string> | readonly string[]): void {
    const waiting = this.#waiting.reduce((sum, { left }) => sum + left, countOf(names));
    if (waiting > MAX_SUBSCRIBED_NAMES)
      throw new CtlError('resource_exhausted', `more than ${MAX_SUBSCRIBED_NAMES} names of a type wait for a response`);
    this.add(names);
  }

  clear(): void {
    this.#waiting.length = 0;
  }

  /** Takes the next matching names, up to a portion. */
  take(fits: (name: string) => boolean): string[] {
    const taken: string[] = [];
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      for (let next = first.names.next(); next.done !== true; next = first.names.next()) {
        first.left--;
        if (fits(next.value)) taken.push(next.value);
        if (taken.length >= PORTION) return taken;
      }
      this.#waiting.shift();
    }
    return taken;
  }
}

function countOf(names: ReadonlySet<string> | readonly string[]): number {
  return 'size' in names ? names.size : names.length;
}
