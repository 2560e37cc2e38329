/** The state of the program that the HTTP addresses show. They listen from its start on, before any state exists. */
import type { DebugSource, SourceStatus } from '../../debug/index.ts';
import type { DebugAccessOptions } from './debug-access.ts';
import type { HttpRoutes, ProgramState } from './http-routes.ts';

/** The state that exists once proxies are served. */
export interface Served extends Pick<DebugAccessOptions, 'callers' | 'home'> {
  /** Whether the inputs that proxies do not wait for have been read as well. */
  isReady(): boolean;
  /** For one page. */
  debug(): DebugSource | undefined;
}

const NOTHING: Served = {
  isReady: () => false,
  debug: () => undefined,
  callers: () => undefined,
  home: () => undefined,
};

/** Something that is read before the program is ready. */
export interface Input {
  status(): readonly SourceStatus[];
}

export class ProgramStatus {
  readonly #stopping: AbortSignal;
  readonly #inputs: Input[] = [];
  readonly #gauges: (() => void)[] = [];
  #served = NOTHING;
  /** The metrics of handlers of the policy component. */
  policyPage: () => Promise<string> = async () => '';

  /** @param stopping aborts when the program begins to stop */
  constructor(stopping: AbortSignal) {
    this.#stopping = stopping;
  }

  /** Adds an input, which is shown after those that were added before it. */
  reads(input: Input): void {
    this.#inputs.push(input);
  }

  /**
   * Shows something that is read once.
   * @returns the function to call when it has been read
   */
  readsOnce(id: string, cluster: string): () => void {
    let synced = false;
    this.reads({ status: () => [{ id, cluster, synced, health: { ok: true } }] });
    return () => {
      synced = true;
    };
  }

  /** @param set is called before each scrape */
  samples(set: () => void): void {
    this.#gauges.push(set);
  }

  serves(served: Served): void {
    this.#served = served;
  }

  /** For the HTTP addresses. */
  readonly shown: Pick<HttpRoutes, 'state' | 'debug' | 'sources' | 'policyPage'> &
    Pick<DebugAccessOptions, 'callers' | 'home'> = {
    state: () => this.#state(),
    debug: () => this.#served.debug(),
    sources: () => this.#inputs.flatMap((input) => input.status()),
    callers: () => this.#served.callers(),
    home: () => this.#served.home(),
    policyPage: () => this.policyPage(),
  };

  sample(): void {
    for (const set of this.#gauges) set();
  }

  #state(): ProgramState {
    if (this.#stopping.aborted) return 'stopping';
    return this.#served.isReady() ? 'ready' : 'starting';
  }
}
