/** The policy component at work: the configuration in force, and decisions and records under it. */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { Log } from '../../core/log.ts';
import type { Slices } from '../../core/slices.ts';
import type { Attributes } from '../../expressions/index.ts';
import { envoy } from '../../protobuf/index.ts';
import { openHandler } from '../adapters/open.ts';
import { MetricPage } from '../adapters/prometheus.ts';
import type { AdapterHost, CallContext } from '../adapters/types.ts';
import { CheckAttributes } from '../attributes/check.ts';
import { HttpRecordAttributes, TcpRecordAttributes } from '../attributes/record.ts';
import { entriesOf, type RecordEntry } from '../attributes/record-entries.ts';
import { type CallerRecord, type WorkloadChanges, WorkloadTable } from '../attributes/workloads.ts';
import type { Handler, PolicyConfig } from '../types.ts';
import { encodeDecision } from './check-response.ts';
import { collectReports, type DispatchInputs, decide, type ReportBatch, report } from './dispatcher.ts';
import { type HandlerSet, HandlerTable } from './handler-table.ts';
import { countVarieties, RuleIndex } from './rule-index.ts';
import { RuntimeMeter, type RuntimeStats, type TransitionStats, type VarietyCounts } from './stats.ts';

const { CheckRequest } = envoy.service.auth.v3;
const { HTTPAccessLogEntry, TCPAccessLogEntry } = envoy.data.accesslog.v3;

/** Entries of one message of records: Envoy sends what it has collected from 16 KiB on. */
const MAX_ENTRIES = 1_000;

/** Bytes of the counters of all `memquota` handlers, of which no namespace gets all. */
const MAX_COUNTER_MEMORY = 64 * 1024 * 1024;

/** Bytes of the results of adapters outside that are used again, of which no namespace gets all. */
const MAX_RESULT_MEMORY = 32 * 1024 * 1024;

/** Characters of a line about a problem. */
const MAX_LOGGED = 500;

export interface PolicyEngineOptions {
  readonly host: AdapterHost;
  readonly configNamespace: string;
  /** Problems of expressions (scope `attributes`) and of adapters (scope `grpcAdapter`); limited by what they are about. */
  readonly logs: Readonly<Record<'attributes' | 'grpcAdapter', (about: string, message: string) => void>>;
  readonly log: Log;
}

interface InForce {
  readonly rules: RuleIndex;
  readonly handlers: HandlerSet;
  readonly inputs: DispatchInputs;
}

export class PolicyEngine {
  readonly #options: PolicyEngineOptions;
  readonly #workloads = new WorkloadTable();
  readonly #handlers: HandlerTable;
  readonly #meter = new RuntimeMeter();
  readonly #shared = {
    page: new MetricPage(),
    counters: new FairLimiter(MAX_COUNTER_MEMORY),
    results: new FairLimiter(MAX_RESULT_MEMORY),
  };
  #inForce: InForce | undefined;
  #closed = { handlers: 0, failures: 0 };
  #calls = 0;
  #droppedEntries = 0;

  constructor(options: PolicyEngineOptions) {
    const { host, configNamespace, log } = options;
    this.#options = options;
    this.#handlers = new HandlerTable({
      open: (handler) => openHandler(handler, { host, configNamespace, ...this.#shared }),
      log,
      closed: (failed) => {
        if (failed) this.#closed.failures++;
        else this.#closed.handlers++;
      },
    });
  }

  /** Puts a configuration in force. Calls in progress end with the one that they began with. */
  configure(config: PolicyConfig): {
    readonly transition: Omit<TransitionStats, 'closed' | 'closeFailures'>;
    readonly varieties: VarietyCounts;
  } {
    this.#closed = { handlers: 0, failures: 0 };
    const transition = this.#handlers.replace(namedHandlers(config));
    const handlers = this.#handlers.current;
    if (handlers === undefined) throw new CtlError('internal', 'no handlers');
    const { logs, host } = this.#options;
    const inputs: DispatchInputs = {
      handlers,
      meter: this.#meter,
      monotonic: host.monotonic,
      problem: (kind, about, reason) =>
        (kind === 'expression' ? logs.attributes : logs.grpcAdapter)(about, `${about}: ${reason}`.slice(0, MAX_LOGGED)),
    };
    this.#inForce = { rules: new RuleIndex(config), handlers, inputs };
    return { transition, varieties: countVarieties(config) };
  }

  changeWorkloads(changes: WorkloadChanges): void {
    this.#workloads.change(changes);
  }

  /**
   * Answers a CheckRequest. Throws or rejects with CtlError `unavailable` while no configuration is in force, and
   * `invalid_argument` for bytes that are no request: Envoy then denies.
   */
  check(bytes: Uint8Array, caller: CallerRecord): Uint8Array | Promise<Uint8Array> {
    const { rules, handlers, inputs } = this.#ready();
    const attributes = this.#attributesOf(bytes, caller);
    handlers.enter();
    try {
      const { subject } = attributes;
      const decision = decide({ rules: rules.of(caller.namespace), subject }, attributes, this.#call(caller), inputs);
      if (!(decision instanceof Promise)) {
        handlers.leave();
        return encodeDecision(decision);
      }
      return decision.then(encodeDecision).finally(() => handlers.leave());
    } catch (error) {
      handlers.leave();
      throw error;
    }
  }

  /**
   * Hands the records of a message of the access log service to handlers; yields between entries. The promise resolves
   * when they have them, and never rejects.
   */
  *record(bytes: Uint8Array, caller: CallerRecord): Slices<Promise<void>> {
    let entered: HandlerSet | undefined;
    try {
      const { rules, handlers, inputs } = this.#ready();
      handlers.enter();
      entered = handlers;
      const own = rules.of(caller.namespace);
      const batches = new Map<string, ReportBatch>();
      let entries = 0;
      for (const entry of entriesOf(bytes)) {
        entries++;
        if (entries <= MAX_ENTRIES) collectReports(own, this.#recordOf(entry, caller), batches, inputs);
        yield undefined;
      }
      this.#droppedEntries += Math.max(0, entries - MAX_ENTRIES);
      return report(batches.values(), this.#call(caller), inputs).finally(() => handlers.leave());
    } catch (error) {
      this.#options.logs.attributes(caller.key, `records of ${caller.key}: ${oneLineOf(error)}`.slice(0, MAX_LOGGED));
      entered?.leave();
      return Promise.resolve();
    }
  }

  /** The page of the Prometheus handlers. */
  page(): string {
    return this.#shared.page.text();
  }

  /** What was measured since the last call, and the state of the handlers. */
  sample(): {
    readonly runtime: RuntimeStats | undefined;
    readonly activity: { readonly daemons: number; readonly workers: number };
    readonly closed: { readonly handlers: number; readonly failures: number };
    readonly droppedEntries: number;
  } {
    const droppedEntries = this.#droppedEntries;
    this.#droppedEntries = 0;
    return { runtime: this.#meter.take(), activity: this.#handlers.activity(), closed: this.#closed, droppedEntries };
  }

  close(): void {
    this.#inForce = undefined;
    this.#handlers.close();
  }

  #ready(): InForce {
    if (this.#inForce === undefined) throw new CtlError('unavailable', 'no policy configuration is in force yet');
    return this.#inForce;
  }

  #call({ key }: CallerRecord): CallContext {
    const { now } = this.#options.host;
    return { caller: key, id: `${now().toString(36)}-${(this.#calls++).toString(36)}`, now: now() };
  }

  #attributesOf(bytes: Uint8Array, caller: CallerRecord): CheckAttributes {
    try {
      const { attributes } = CheckRequest.decode(bytes);
      if (attributes !== null) return new CheckAttributes(attributes, caller, this.#workloads);
    } catch (error) {
      throw new CtlError('invalid_argument', 'the message cannot be read', {}, error);
    }
    throw new CtlError('invalid_argument', 'the request has no attributes');
  }

  #recordOf({ kind, bytes }: RecordEntry, caller: CallerRecord): Attributes {
    return kind === 'http'
      ? new HttpRecordAttributes(HTTPAccessLogEntry.decode(bytes), caller, this.#workloads)
      : new TcpRecordAttributes(TCPAccessLogEntry.decode(bytes), caller, this.#workloads);
  }
}

/** Those that a rule names: others would have connections, loops and lists for nothing. */
function namedHandlers({ rules, handlers }: PolicyConfig): readonly Handler[] {
  const named = new Set(rules.flatMap(({ actions }) => actions.map(({ handler }) => handler.id)));
  return [...handlers.values()].filter(({ id }) => named.has(id));
}
