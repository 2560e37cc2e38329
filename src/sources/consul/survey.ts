/**
 * Finds the services whose instances changed by the list of all checks. The list is long, so it is read only after
 * something changed, and rests in proportion to the time that it takes.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import { type CtlError, toCtlError } from '../../core/errors.ts';
import type { Check } from './answers.ts';
import type { Answer } from './client.ts';

export interface SurveyOptions {
  readonly clock: Clock;
  /** The delay after this many failures in a row, ms. */
  readonly retryMs: (failures: number) => number;
  read(): Promise<Answer>;
  parse(answer: Answer, use: (check: Check) => void): Promise<void>;
  /** These services have other instances with checks than in the list before. */
  onChanged(names: readonly string[]): void;
  onOutcome(failure: CtlError | undefined): void;
}

/** Shortest interval between two lists, ms, and the least rest in multiples of the time that a list takes. */
const GAP_MS = 250;
const REST = 5;

export class Survey {
  readonly #options: SurveyOptions;
  /** Service, in lower case → hash of its instances with checks; undefined before the first list. */
  #signatures: ReadonlyMap<string, number> | undefined;
  #index = 0;
  #movedAt = Number.NEGATIVE_INFINITY;
  /** The last list is current from then on. */
  #asOf = Number.NEGATIVE_INFINITY;
  #notBefore = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #generation = 0;
  #isReading = false;
  #isClosed = false;
  #timer: Timer | undefined;

  constructor(options: SurveyOptions) {
    this.#options = options;
  }

  /** The list of services has this index; another one than before means that something changed until `at`. */
  moved(index: number, at: number): void {
    if (index !== this.#index) this.#movedAt = at;
    this.#index = index;
    this.#next();
  }

  /** The registry may have another state: the next list is compared with none. */
  reset(): void {
    this.#generation++;
    this.#signatures = undefined;
    this.#index = 0;
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #next(): void {
    const { clock } = this.#options;
    if (this.#isClosed || this.#isReading || this.#timer !== undefined || this.#asOf >= this.#movedAt) return;
    const wait = this.#notBefore - clock.now();
    if (wait <= 0) void this.#read();
    else {
      this.#timer = clock.setTimer(wait, () => {
        this.#timer = undefined;
        this.#next();
      });
    }
  }

  async #read(): Promise<void> {
    const { clock, retryMs, onOutcome } = this.#options;
    this.#isReading = true;
    const startedAt = clock.now();
    try {
      await this.#compare();
      this.#failures = 0;
      this.#notBefore = clock.now() + Math.max(GAP_MS, REST * (clock.now() - startedAt));
      if (!this.#isClosed) onOutcome(undefined);
    } catch (error) {
      this.#failures++;
      this.#notBefore = clock.now() + retryMs(this.#failures);
      if (!this.#isClosed) onOutcome(toCtlError(error));
    }
    this.#isReading = false;
    this.#next();
  }

  async #compare(): Promise<void> {
    const { read, parse, onChanged } = this.#options;
    const generation = this.#generation;
    const answer = await read();
    const signatures = new Map<string, number>();
    await parse(answer, ({ node, serviceId, serviceName, tags }) => {
      if (serviceName === '') return;
      const service = serviceName.toLowerCase();
      // A sum, because the order of the list is the registry's.
      const sum = (signatures.get(service) ?? 0) + hashOf(`${node}\0${serviceId}\0${tags.join('\0')}`);
      signatures.set(service, sum % Number.MAX_SAFE_INTEGER);
    });
    if (generation !== this.#generation || this.#isClosed) return;
    const before = this.#signatures;
    this.#signatures = signatures;
    this.#asOf = answer.asOf;
    if (before === undefined) return;
    const names = new Set([...before.keys(), ...signatures.keys()]);
    onChanged([...names].filter((name) => before.get(name) !== signatures.get(name)));
  }
}

/** FNV-1a, 32 bits. A collision delays a change until the sweep. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
