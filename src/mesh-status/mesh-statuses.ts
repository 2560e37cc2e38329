/** The controller that writes the statuses of mesh resources, where this replica leads. */
import type { Timer } from '../core/clock.ts';
import { type StatusAccess, StatusWriter, type WantedStatus } from '../object-status/index.ts';
import type { ResourceKey } from '../resources/index.ts';
import type { Acknowledgements } from './acknowledgements/document-acknowledgements.ts';
import { type DocumentVersion, joinStates } from './acknowledgements/document-state.ts';
import type { MeshFindings } from './findings/mesh-findings.ts';
import type { MeshObjects } from './mesh-objects.ts';
import { isSettled, type RefusedVersion, reconciledCondition } from './reconciled.ts';
import { SlicedKeys } from './sliced-keys.ts';
import { MESH_RULES } from './status-rules.ts';

export interface ReconciledSources {
  readonly acknowledgements: Acknowledgements;
  /** The document in force, if it is one of the cluster. */
  readonly inForce: (key: ResourceKey) => DocumentVersion | undefined;
  /** The refused documents of a key: one of each API group at most. */
  readonly refused: (key: ResourceKey) => readonly RefusedVersion[];
}

export interface MeshStatusesOptions extends StatusAccess {
  readonly objects: MeshObjects;
  /** For conditions (CTL_ENABLE_STATUS). */
  readonly reconciled: ReconciledSources | undefined;
  /** For messages (CTL_ENABLE_ANALYSIS), and what ends it. */
  readonly findings: MeshFindings | undefined;
}

/** Time in which a change normally arrives everywhere, ms: before, no condition is written that it has not. */
export const OVERDUE_MS = 2_000;
/** Time that other replicas have to report, once this one leads, ms: the last leader had no report. */
const REPORTING_MS = 3_000;

/** A document for which proxies are waited for. */
interface Waiting {
  readonly generation: number;
  readonly timer: Timer;
  isOverdue: boolean;
}

export class MeshStatuses {
  readonly #options: MeshStatusesOptions;
  readonly #writer: StatusWriter;
  readonly #all: SlicedKeys;
  readonly #waiting = new Map<string, Waiting>();
  /** Other replicas may not have had time to report. */
  #isReporting = true;
  #timer: Timer | undefined;
  readonly #unfollow: (() => Promise<void> | void)[] = [];

  constructor(options: MeshStatusesOptions) {
    this.#options = options;
    const { statusBudget: budget, statusLog: log } = options;
    const desired = () => ({ get: (key: string) => this.#wanted(key) });
    this.#writer = new StatusWriter({ ...options, desired, rules: MESH_RULES, budget, log });
    const { objects } = options;
    this.#all = new SlicedKeys({ keys: () => objects.keys(), pass: (keys) => this.#writer.changed(keys) });
  }

  start(): void {
    const { objects, reconciled, client, findings } = this.#options;
    const { clock } = client.connection;
    this.#unfollow.push(
      objects.follow((keys) => {
        // Another object of the name has generations of its own.
        for (const key of keys) if (objects.get(key) === undefined) this.#arrived(key);
        this.#writer.changed(keys);
      }),
    );
    if (reconciled !== undefined) {
      const onChanged = (documents: readonly ResourceKey[]): void =>
        documents.length === 0 ? this.allChanged() : this.changed(documents);
      this.#unfollow.push(reconciled.acknowledgements.follow(onChanged));
    }
    this.#timer = clock.setTimer(REPORTING_MS, () => {
      this.#isReporting = false;
      this.allChanged();
    });
    findings?.changed();
  }

  /** What is known of these documents has changed. */
  changed(documents: readonly ResourceKey[]): void {
    this.#writer.changed(documents.flatMap((key) => this.#options.objects.objectKeysOf(key)));
  }

  /** Something has changed about all documents. */
  allChanged(): void {
    this.#all.start();
  }

  /** Nothing is written after the promise has resolved. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    this.#all.close();
    for (const { timer } of this.#waiting.values()) timer.cancel();
    this.#options.findings?.close();
    await Promise.all([...this.#unfollow.map((end) => end()), this.#writer.close()]);
  }

  #wanted(key: string): WantedStatus | undefined {
    const { objects, findings } = this.#options;
    const object = objects.get(key);
    if (object === undefined) {
      this.#arrived(key);
      return undefined;
    }
    const condition = this.#condition(key, object);
    const messages = findings?.of(object.uid);
    if (condition === undefined && messages === undefined) return undefined;
    const status = {
      ...(condition === undefined ? {} : { conditions: [condition] }),
      ...(messages === undefined ? {} : { validationMessages: messages }),
    };
    const { namespace, name, uid, type } = object;
    return { kind: type.kind, namespace, name, uid, status };
  }

  #condition(key: string, object: NonNullable<ReturnType<MeshObjects['get']>>) {
    const { reconciled, objects } = this.#options;
    if (reconciled === undefined) return undefined;
    const { acknowledgements, inForce, refused } = reconciled;
    const document = objects.documentOf(key);
    const found = inForce(document);
    const isKnown = acknowledgements.areKnown && !this.#isReporting;
    const joined = found === undefined || !isKnown ? undefined : joinStates(found, acknowledgements.of(document));
    const isPending = joined !== undefined && joined.silent + joined.pending > 0 && !isSettled(object);
    if (!isPending) this.#arrived(key);
    return reconciledCondition(object, {
      inForce: found,
      refused: refused(document).find(({ uid }) => uid === object.uid),
      joined,
      isOverdue: isPending && this.#isOverdue(key, object.generation),
    });
  }

  /** Whether proxies have been waited for long enough. */
  #isOverdue(key: string, generation: number): boolean {
    const known = this.#waiting.get(key);
    if (known?.generation === generation) return known.isOverdue;
    known?.timer.cancel();
    const { clock } = this.#options.client.connection;
    // Nothing else may happen to the document after this timer: it decides by itself, whatever the time is then.
    const timer = clock.setTimer(OVERDUE_MS, () => {
      waiting.isOverdue = true;
      this.#writer.changed([key]);
    });
    const waiting: Waiting = { generation, timer, isOverdue: false };
    this.#waiting.set(key, waiting);
    return false;
  }

  #arrived(key: string): void {
    this.#waiting.get(key)?.timer.cancel();
    this.#waiting.delete(key);
  }
}
