/**
 * One live view: its units, the bundles made of them, and what still has to be generated. Bundles of all types are replaced
 * together, so that a stream never sees listeners of one snapshot beside clusters of another.
 */
import type { GenerateJob } from '../../workers/protocol.ts';
import { encodeEndpoints, resolveEndpoints } from '../generate/index.ts';
import {
  GENERATED_TYPES,
  type GeneratedType,
  type GenerationFinding,
  type Unit,
  type UnitSelection,
  type View,
  type XdsType,
} from '../generate/types.ts';
import type { Snapshot } from '../model/types.ts';
import { emptyBundle, nextBundle } from './bundle.ts';
import { contentVersion } from './encode-resource.ts';
import type { GeneratedJob } from './generator.ts';
import type { Interner } from './interner.ts';
import type { Bundle, EncodedResource, PushReason } from './types.ts';

/** Work that a view still has to do: which units, since when, and why. */
interface Dirty {
  readonly units: Map<GeneratedType, 'all' | Set<Unit>>;
  since: number;
  readonly reasons: Set<PushReason>;
}

export interface CommitResult {
  /** Types whose bundle is another one than before. */
  readonly changed: ReadonlySet<XdsType>;
  readonly since: number;
  readonly reasons: ReadonlySet<PushReason>;
}

export class ViewState<S> {
  readonly key: string;
  readonly view: View;
  /** Sessions whose configuration has this part. */
  readonly sessions = new Set<S>();
  /** True once the first generation is committed. */
  built = false;
  inFlight = false;
  /** Snapshot version of the last commit. While nothing is dirty or in flight the view stands at the engine's version. */
  committedVersion = 0;
  /** Monotonic ms since which no session has it; undefined while one has. */
  idleSince: number | undefined;
  #dirty: Dirty | undefined;
  #taken: Dirty | undefined;
  readonly #units: Record<GeneratedType, Map<Unit, readonly EncodedResource[]>>;
  readonly #findings = new Map<string, readonly GenerationFinding[]>();
  readonly #bundles: Record<XdsType, Bundle>;

  constructor(key: string, view: View) {
    this.key = key;
    this.view = view;
    this.#units = { cds: new Map(), lds: new Map(), rds: new Map() };
    this.#bundles = {
      cds: emptyBundle('cds', key),
      eds: emptyBundle('eds', key),
      lds: emptyBundle('lds', key),
      rds: emptyBundle('rds', key),
    };
  }

  get isDirty(): boolean {
    return this.#dirty !== undefined;
  }

  bundle(type: XdsType): Bundle {
    return this.#bundles[type];
  }

  findings(): readonly GenerationFinding[] {
    return [...this.#findings.values()].flat();
  }

  /** True when the view has clusters of this host: a change of its endpoints concerns it. */
  hasHost(hostname: string): boolean {
    return this.#units.cds.has(hostname);
  }

  markDirty(selection: UnitSelection, since: number, reasons: Iterable<PushReason>): void {
    this.#dirty ??= { units: new Map(), since, reasons: new Set() };
    this.#dirty.since = Math.min(this.#dirty.since, since);
    for (const reason of reasons) this.#dirty.reasons.add(reason);
    for (const type of GENERATED_TYPES) {
      const units = selection[type];
      const known = this.#dirty.units.get(type);
      if (units === undefined || known === 'all') continue;
      if (units === 'all') this.#dirty.units.set(type, 'all');
      else this.#dirty.units.set(type, known === undefined ? new Set(units) : known.union(units));
    }
  }

  /** Takes all dirty units as one job. The view is in flight until {@link commit} or {@link abandon}. */
  takeJob(): GenerateJob | undefined {
    const dirty = this.#dirty;
    if (dirty === undefined) return undefined;
    this.#dirty = undefined;
    this.#taken = dirty;
    this.inFlight = true;
    const units: Partial<Record<GeneratedType, 'all' | readonly Unit[]>> = {};
    for (const [type, selected] of dirty.units) units[type] = selected === 'all' ? 'all' : [...selected].sort();
    return { viewKey: this.key, view: this.view, units };
  }

  /** A job that could not be done: the view keeps what it has, and the next change tries these units again. */
  abandon(): void {
    this.inFlight = false;
    const taken = this.#taken;
    this.#taken = undefined;
    if (taken !== undefined) this.markDirty(Object.fromEntries(taken.units), taken.since, taken.reasons);
  }

  /** Takes a job's results over: units, bundles, and the endpoints that its clusters ask for. */
  commit(job: GeneratedJob, snapshot: Snapshot, interner: Interner): CommitResult {
    const changed = new Set<XdsType>();
    const changes = this.#applyUnits(job, interner);
    for (const type of GENERATED_TYPES) {
      if (this.#replace(type, changes[type])) changed.add(type);
    }
    // Also where the cluster's bytes are as before: a subset's labels stand in the endpoints alone.
    if (this.#replace('eds', this.#endpointChanges(changes.cds.keys(), snapshot, interner))) changed.add('eds');
    this.#noteFindings(job);
    this.built = true;
    this.inFlight = false;
    this.committedVersion = job.version;
    const since = this.#taken?.since ?? 0;
    const reasons = this.#taken?.reasons ?? new Set<PushReason>();
    this.#taken = undefined;
    return { changed, since, reasons };
  }

  /** Encodes the endpoints of a host's clusters again; true when the bytes of some differ. */
  updateEndpoints(hostnames: Iterable<string>, snapshot: Snapshot, interner: Interner): boolean {
    const clusters: string[] = [];
    for (const hostname of hostnames) {
      for (const cluster of this.#units.cds.get(hostname) ?? []) clusters.push(cluster.name);
    }
    return this.#replace('eds', this.#endpointChanges(clusters, snapshot, interner));
  }

  #replace(type: XdsType, changes: ReadonlyMap<string, EncodedResource | undefined>): boolean {
    const next = nextBundle(this.#bundles[type], changes);
    const changed = next !== this.#bundles[type];
    this.#bundles[type] = next;
    return changed;
  }

  #applyUnits(
    { answer, bytes }: GeneratedJob,
    interner: Interner,
  ): Record<GeneratedType, Map<string, EncodedResource | undefined>> {
    const changes = { cds: new Map(), lds: new Map(), rds: new Map() } as Record<
      GeneratedType,
      Map<string, EncodedResource | undefined>
    >;
    const message = new Uint8Array(bytes);
    const failed = new Set(answer.failures.map(({ type, unit }) => `${type}/${unit}`));
    // Removals first: a name may move from one unit to another.
    const listed = new Set(answer.units.map(({ type, unit }) => `${type}/${unit}`));
    for (const type of answer.complete) {
      for (const [unit, resources] of this.#units[type]) {
        if (listed.has(`${type}/${unit}`) || failed.has(`${type}/${unit}`)) continue;
        for (const { name } of resources) changes[type].set(name, undefined);
        this.#units[type].delete(unit);
      }
    }
    for (const { type, unit } of answer.units) {
      for (const { name } of this.#units[type].get(unit) ?? []) changes[type].set(name, undefined);
    }
    for (const { type, unit, resources } of answer.units) {
      const made = resources.map(({ name, version, refs, offset, length }) =>
        interner.intern(type, name, version, refs, () => message.subarray(offset, offset + length)),
      );
      if (made.length === 0) this.#units[type].delete(unit);
      else this.#units[type].set(unit, made);
      for (const resource of made) changes[type].set(resource.name, resource);
    }
    return changes;
  }

  /** Endpoint resources for these cluster names: encoded where the cluster asks for them, gone where it does not any more. */
  #endpointChanges(
    clusterNames: Iterable<string>,
    snapshot: Snapshot,
    interner: Interner,
  ): Map<string, EncodedResource | undefined> {
    const changes = new Map<string, EncodedResource | undefined>();
    const { view } = this;
    if (view.part === 'inbound') return changes;
    for (const clusterName of clusterNames) {
      const cluster = this.#bundles.cds.get(clusterName);
      if (cluster === undefined || cluster.refs.length === 0) {
        changes.set(clusterName, undefined);
        continue;
      }
      for (const name of cluster.refs) {
        const input = resolveEndpoints(snapshot, view, name);
        // A service that has gone since: its cluster goes with a job that is under way, until then the endpoints stay.
        if (input === undefined) continue;
        const bytes = encodeEndpoints(input);
        changes.set(
          name,
          interner.intern('eds', name, contentVersion(bytes), [], () => bytes),
        );
      }
    }
    return changes;
  }

  #noteFindings({ answer }: GeneratedJob): void {
    for (const key of [...this.#findings.keys()]) {
      if (answer.complete.some((type) => key.startsWith(`${type}/`))) this.#findings.delete(key);
    }
    for (const { type, unit } of answer.units) this.#findings.delete(`${type}/${unit}`);
    for (const finding of answer.findings) {
      const key = `${finding.type}/${finding.unit}`;
      this.#findings.set(key, [...(this.#findings.get(key) ?? []), finding]);
    }
  }
}
