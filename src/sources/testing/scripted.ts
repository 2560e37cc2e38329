/**
 * A source that plays an API server with list and watch, as a test scripts it: late, interrupted, repeating itself, in
 * another order. The test changes the server's objects; what the sink receives depends on the state of the connection.
 */
import type { Log } from '../../core/log.ts';
import {
  type AnyResource,
  keyOf,
  type ListedEvent,
  type ResourceEvent,
  type ResourceProblem,
} from '../../resources/kinds/types.ts';
import { HealthLog } from '../health.ts';
import type { Source, SourceHealth, SourceIdentity, SourceSink } from '../source.ts';

export interface ScriptedOptions extends SourceIdentity {
  readonly now?: () => number;
  readonly log?: Pick<Log, 'warn' | 'info'>;
}

const SILENT = { warn: () => {}, info: () => {} };

export class ScriptedSource implements Source {
  readonly id: string;
  readonly cluster: string;
  readonly synced: Promise<void>;
  readonly #now: () => number;
  readonly #health: HealthLog;
  readonly #firstList = Promise.withResolvers<void>();
  /** The server's objects, by key. */
  readonly #objects = new Map<string, ListedEvent>();
  /** Changes at the server since the watch ended. */
  #missed: ResourceEvent[] = [];
  #watching = false;
  #listed = false;
  #sink: SourceSink | undefined;
  #version = 0;

  constructor({ id, cluster, now = () => 0, log = SILENT }: ScriptedOptions) {
    this.id = id;
    this.cluster = cluster;
    this.synced = this.#firstList.promise;
    this.#now = now;
    this.#health = new HealthLog(log, now);
  }

  start(sink: SourceSink): void {
    this.#sink = sink;
  }

  health(): SourceHealth {
    return this.#health.current;
  }

  close(): Promise<void> {
    this.#watching = false;
    return Promise.resolve();
  }

  /** An object is created or changed. */
  set(resource: AnyResource): void {
    const key = keyOf(resource);
    const before = this.#objects.get(key);
    const known = before?.type === 'set' ? before.resource.origin : undefined;
    const resourceVersion = String(++this.#version);
    const uid = known?.uid ?? `${this.id}-${resourceVersion}`;
    const origin = { source: this.id, uid, generation: (known?.generation ?? 0) + 1, resourceVersion };
    this.#change(key, { type: 'set', resource: { ...resource, origin }, eventTime: this.#now() });
  }

  /** An object changes to an invalid one. */
  refuse(problem: ResourceProblem): void {
    const origin = { source: this.id, resourceVersion: String(++this.#version) };
    this.#change(problem.id, { type: 'invalid', problem: { ...problem, origin }, eventTime: this.#now() });
  }

  remove(key: string): void {
    this.#objects.delete(key);
    this.#tell({ type: 'delete', key, eventTime: this.#now() });
  }

  /** Lists everything and watches from there: the first time, and whenever the watch cannot continue. */
  list(): void {
    this.#missed = [];
    this.#watching = true;
    this.#listed = true;
    this.#health.good(`${this.id} can be read again`);
    this.#sink?.replace({ events: [...this.#objects.values()], eventTime: this.#now() });
    this.#firstList.resolve();
  }

  /** The watch ends. */
  disconnect(reason: string): void {
    this.#watching = false;
    this.#health.bad(reason, 'what it gave stays in force');
  }

  /** The watch continues where it ended: sends missed changes, those of one key in order, the latest keys first. */
  resume(): void {
    if (!this.#listed) return;
    const byKey = Map.groupBy(this.#missed, keyOfEvent);
    this.#missed = [];
    this.#watching = true;
    this.#health.good(`${this.id} can be read again`);
    for (const events of [...byKey.values()].reverse()) this.#sink?.apply(events);
  }

  /** Sends the server's objects again, as after a reconnect whose point of time is not known exactly. */
  repeat(): void {
    if (this.#watching) this.#sink?.apply([...this.#objects.values(), ...this.#objects.values()]);
  }

  #change(key: string, event: ListedEvent): void {
    this.#objects.set(key, event);
    this.#tell(event);
  }

  #tell(event: ResourceEvent): void {
    if (this.#watching) this.#sink?.apply([event]);
    else this.#missed.push(event);
  }
}

function keyOfEvent(event: ResourceEvent): string {
  if (event.type === 'set') return keyOf(event.resource);
  if (event.type === 'delete') return event.key;
  return event.type === 'invalid' ? event.problem.id : event.id;
}
