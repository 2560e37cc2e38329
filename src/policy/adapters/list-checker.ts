/** listchecker: compares a value with a list of a document, or with one that a server provides. */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { createFailureLog } from '../../core/log.ts';
import type { ListParams } from '../types.ts';
import { type Entries, entriesOf } from './list-entries.ts';
import { type AdapterHost, type CheckResult, CODE, OK, type RunningHandler, textOf } from './types.ts';

/** Longest list that is read, and how long that may take. */
const MAX_BYTES = 4 * 1024 * 1024;
const FETCH_TIMEOUT_MS = 10_000;
const MAX_REDIRECTS = 3;
/** Shortest interval between two requests, whatever a document says. */
const MIN_REFRESH_MS = 1_000;
const MAX_SHOWN = 100;

/** Throws CtlError when the entries of the document are not usable. */
export function openListChecker(id: string, params: ListParams, host: AdapterHost): RunningHandler {
  const overrides = entriesOf(params.entryType, params.overrides);
  const provided = params.providerUrl === undefined ? undefined : new ProvidedList(id, params, host);
  const answer = (status: CheckResult['status']): CheckResult => ({
    status,
    validDurationMs: params.cachingIntervalMs,
    validUseCount: params.cachingUseCount,
  });
  const allowed = answer(OK);
  const refused = (value: string): CheckResult => {
    const shown = value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value;
    const reason = params.blacklist ? 'is on the list' : 'is not on the list';
    return answer({ code: CODE.PERMISSION_DENIED, message: `${shown} ${reason}` });
  };
  return {
    get daemons() {
      return provided === undefined ? 0 : 1;
    },
    get workers() {
      return provided?.fetching === true ? 1 : 0;
    },
    check({ value }) {
      if (value.template !== 'listentry') throw new CtlError('internal', `no list entry: ${value.template}`);
      const entry = value.value;
      const judged = (found: boolean) => (found === params.blacklist ? refused(textOf(entry)) : allowed);
      const isListed = overrides.has(entry);
      if (isListed || provided === undefined) return judged(isListed);
      return provided.entries().then((entries) => judged(entries.has(entry)));
    },
    close: () => provided?.close(),
  };
}

/** The list of a server, fetched again and again. */
class ProvidedList {
  readonly #params: ListParams;
  readonly #host: AdapterHost;
  readonly #failures: ReturnType<typeof createFailureLog>;
  readonly #closing = new AbortController();
  readonly #stop: () => void;
  #first: Promise<void> | undefined;
  #entries: Entries | undefined;
  /** Monotonic ms of the last fetch that succeeded. */
  #fetchedAt = 0;
  fetching = false;

  constructor(id: string, params: ListParams, host: AdapterHost) {
    this.#params = params;
    this.#host = host;
    this.#failures = createFailureLog(
      host.log,
      `the list of handler ${id} cannot be read`,
      `the list of handler ${id} is read again`,
    );
    this.#stop = host.every(Math.max(MIN_REFRESH_MS, params.refreshIntervalMs), () => void this.#refresh());
    this.#first = this.#refresh().finally(() => {
      this.#first = undefined;
    });
  }

  /** The list in force. Rejects with CtlError `unavailable` when there is none, or it is too old. */
  async entries(): Promise<Entries> {
    await this.#first;
    const { ttlMs } = this.#params;
    if (this.#entries !== undefined && ttlMs > 0 && this.#host.monotonic() - this.#fetchedAt > ttlMs)
      this.#entries = undefined;
    if (this.#entries === undefined) throw new CtlError('unavailable', 'the list cannot be read from its provider');
    return this.#entries;
  }

  close(): void {
    this.#stop();
    this.#closing.abort();
  }

  async #refresh(): Promise<void> {
    if (this.fetching) return;
    this.fetching = true;
    try {
      const text = await this.#read(this.#params.providerUrl ?? '');
      const lines = text.split('\n').map((line) => line.trim());
      const entries = entriesOf(
        this.#params.entryType,
        lines.filter((line) => line !== '' && !line.startsWith('#')),
      );
      this.#entries = entries;
      this.#fetchedAt = this.#host.monotonic();
      this.#failures.succeeded();
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#failures.failed(oneLineOf(error));
    } finally {
      this.fetching = false;
    }
  }

  async #read(url: string): Promise<string> {
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(FETCH_TIMEOUT_MS)]);
    let target = url;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const response = await this.#host.fetch(target, { signal });
      const location = response.headers.get('location');
      if (response.status >= 300 && response.status < 400 && location !== null) {
        await response.body?.cancel();
        target = new URL(location, target).href;
        if (!/^https?:/.test(target)) throw new CtlError('permission_denied', 'the redirect leaves HTTP');
        continue;
      }
      if (response.status === 200) return await bounded(response);
      await response.body?.cancel();
      throw new CtlError('unavailable', `the provider returned HTTP ${response.status}`);
    }
    throw new CtlError('unavailable', `more than ${MAX_REDIRECTS} redirects`);
  }
}

async function bounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new CtlError('resource_exhausted', `the list is longer than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
