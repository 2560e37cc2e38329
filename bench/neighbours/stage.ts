/** Measures what honest proxies of other namespaces, or an API server, notice during one phase of a scenario. */
import { setTimeout as delay } from 'node:timers/promises';
import { quiet } from '../counters.ts';
import { type BenchContext, type Mesh, watchedChange } from '../mesh.ts';
import { statSeconds } from '../process-stats.ts';
import { monotonicMs } from '../world/clock.ts';
import type { Change } from '../world/world.ts';
import { injections } from './injections.ts';
import { ReadyProbe } from './ready-probe.ts';
import { HOSTILE, type Scenario, type TenantDocument } from './scenario.ts';

/** Changes of a phase, one each second; where a document is written before each of them, `--rounds` of them. */
const CHANGES = 10;
/** A phase makes no further change after this time, ms: some scenarios delay each change by half a minute. */
const PHASE_MS = 60_000;
/** From the hostile document to the change that is measured, ms: the debounce, and the beginning of the work. */
const LEAD_MS = 300;
const EACH_MS = 1000;

export interface Phase {
  /** Milliseconds to each honest proxy, by change. */
  readonly latencies: readonly (readonly number[])[];
  /** The longest `/ready`. */
  readonly readyMs: number;
  /** CPU seconds of the server, and how long the phase lasted. */
  readonly cpu: number;
  readonly seconds: number;
  readonly note: string;
}

export class Stage {
  readonly #context: BenchContext;
  readonly #mesh: Mesh;
  readonly #scenario: Scenario;
  /** Every change is of another service, and every document another version. */
  #version = 0;

  constructor(context: BenchContext, mesh: Mesh, scenario: Scenario) {
    this.#context = context;
    this.#mesh = mesh;
    this.#scenario = scenario;
  }

  /** @param document written before the changes or during them */
  async phase(document?: TenantDocument): Promise<Phase> {
    const { server } = this.#mesh;
    const [cpu, started] = [statSeconds(server.pid), monotonicMs()];
    const probe = new ReadyProbe(server.ports.http);
    const { latencies, note } = await this.#measure(document);
    const ready = await probe.end();
    // What a document has caused belongs to its phase.
    if (document !== undefined) await quiet(this.#mesh);
    return {
      latencies,
      readyMs: ready.maxMs,
      cpu: statSeconds(server.pid) - cpu,
      seconds: (monotonicMs() - started) / 1000,
      note: ready.failed === 0 ? note : `${note}, no answer to ${ready.failed} of /ready`,
    };
  }

  async #measure(document: TenantDocument | undefined): Promise<Pick<Phase, 'latencies' | 'note'>> {
    const count = Math.min(CHANGES, this.#context.options.seconds);
    if (this.#scenario.measured === 'injection') {
      const { latencies, refused } = await injections(this.#mesh.server.ports.https, count);
      return { latencies: [latencies], note: `${latencies.length} injections, ${refused} refused` };
    }
    if (this.#scenario.document?.written === 'before each change')
      return this.#changes(this.#context.options.rounds, document);
    const writing = document === undefined ? undefined : this.#writeAlways(document);
    const measured = await this.#changes(count);
    await writing?.();
    return measured;
  }

  /** @param document written a little before each change */
  async #changes(count: number, document?: TenantDocument): Promise<Pick<Phase, 'latencies' | 'note'>> {
    const kind = this.#scenario.measured === 'injection' ? 'endpoint' : this.#scenario.measured;
    const latencies: number[][] = [];
    let missing = 0;
    const started = monotonicMs();
    while (latencies.length < count && monotonicMs() - started < PHASE_MS) {
      const begun = monotonicMs();
      if (document !== undefined) {
        await this.#write(document);
        await delay(LEAD_MS);
      }
      const followed = await this.#follow(this.#mesh.world.change(kind, this.#version++));
      latencies.push(followed.latencies);
      missing += followed.missing;
      // The next document finds the server in the same state.
      if (document !== undefined) await quiet(this.#mesh);
      else await delay(Math.max(0, begun + EACH_MS - monotonicMs()));
    }
    const changes = latencies.length === 1 ? '1 change' : `${latencies.length} changes`;
    return { latencies, note: missing === 0 ? changes : `${changes}, not in time at ${missing} proxies` };
  }

  /** Where a change has not arrived in time, its latency is that time. */
  async #follow(change: Change): Promise<{ readonly latencies: number[]; readonly missing: number }> {
    const { at, arrivals } = await watchedChange(this.#context, this.#mesh, change);
    const { timeoutMs } = this.#context.options;
    const latencies = arrivals.at.map((arrival) => (arrival === 0 ? timeoutMs : arrival - at));
    return { latencies, missing: arrivals.missing };
  }

  async #write({ text, files = 1 }: TenantDocument): Promise<void> {
    const version = this.#version++;
    for (let file = 0; file < files; file++) {
      const document = text(this.#context.options.load, version, file);
      await this.#mesh.world.apply({ path: `${HOSTILE}/document-${file}.yaml`, text: document, expect: [] });
    }
  }

  /** Writes it each second; returns how to end that. */
  #writeAlways(document: TenantDocument): () => Promise<void> {
    let ended = false;
    const run = async (): Promise<void> => {
      while (!ended) {
        await this.#write(document);
        await delay(EACH_MS);
      }
    };
    const running = run();
    // The caller who ends it sees its failure.
    running.catch(() => {});
    return () => {
      ended = true;
      return running;
    };
  }
}
