/** Timers of one stream for what a proxy is expected to send, and may not send. */

/**
 * How long listeners and routes wait for the request for new clusters' endpoints, and removals for the requests of all
 * types after a reconnect, ms: Envoy sends them at once, other clients may never send them. After a reconnect, Envoy
 * requests no clusters while one of them waits for names, endpoints or secrets: a proxy on demand then gets all of its
 * clusters.
 */
const REQUESTS_MS = 1000;

/**
 * After how long without an answer to clusters, ms, a proxy on demand gets others nevertheless. Envoy answers none, and
 * asks for none, while it waits for the names, endpoints or secrets of one of them.
 */
const CLUSTERS_MS = 1000;

/** The part of the protocol machine that waits. */
interface Waiting {
  readonly awaiting: boolean;
  stopAwaiting(): void;
  readonly clustersUnanswered: boolean;
  readonly answersLate: boolean;
  needClusters(): void;
  readonly awaitsClusters: boolean;
  presumeClusters(): void;
}

export interface PatienceOptions {
  readonly isOnDemand: () => boolean;
  /** Whether requests that the proxy has sent wait here. */
  readonly defers: () => boolean;
  /** The proxy does not answer clusters now. */
  readonly clustersPresumed: () => void;
  /** A time is over. */
  readonly over: () => void;
}

export class Patience {
  readonly #machine: Waiting;
  readonly #options: PatienceOptions;
  #requests: NodeJS.Timeout | undefined;
  #clusters: NodeJS.Timeout | undefined;

  constructor(machine: Waiting, options: PatienceOptions) {
    this.#machine = machine;
    this.#options = options;
  }

  /** To be called after requests and responses. */
  watch(): void {
    const machine = this.#machine;
    if (this.#options.isOnDemand()) machine.needClusters();
    if (machine.answersLate) this.#presume();
    if (!machine.awaiting) this.#stopRequests();
    else this.#requests ??= setTimeout(() => this.#requestsOver(), REQUESTS_MS).unref();
    if (!machine.clustersUnanswered || !this.#options.isOnDemand()) this.#stopClusters();
    else
      this.#clusters ??= this.#halfOfClusters(
        () => (this.#clusters = this.#halfOfClusters(() => this.#clustersOver())),
      );
  }

  stop(): void {
    this.#stopRequests();
    this.#stopClusters();
  }

  #stopRequests(): void {
    clearTimeout(this.#requests);
    this.#requests = undefined;
  }

  #stopClusters(): void {
    clearTimeout(this.#clusters);
    this.#clusters = undefined;
  }

  /** Two timers: between them an answer is read that arrived while this process was busy. */
  #halfOfClusters(act: () => void): NodeJS.Timeout {
    return setTimeout(act, CLUSTERS_MS / 2).unref();
  }

  #requestsOver(): void {
    this.#requests = undefined;
    if (!this.#options.defers()) {
      if (this.#machine.awaitsClusters) this.#presume();
      this.#machine.stopAwaiting();
    }
    this.#options.over();
  }

  #clustersOver(): void {
    this.#clusters = undefined;
    if (!this.#options.defers()) this.#presume();
    this.#options.over();
  }

  #presume(): void {
    this.#machine.presumeClusters();
    this.#options.clustersPresumed();
  }
}
