/**
 * Records the reads of each unit of each view, and computes which units a change affects. The reads of a unit are known
 * once it is generated. So changes that arrive while a job runs are kept, and compared with the reads of the job when
 * it is complete.
 */
import { InternalError } from '../../core/errors.ts';
import {
  ALL_UNITS,
  type ChangedFacts,
  type FactChanges,
  fact,
  type GeneratedType,
  hostOfServiceKey,
  scopeIdOfView,
  TouchedUnits,
  type TypeReads,
  touchedUnits,
  type Unit,
  type UnitSelection,
  type View,
} from '../../generate/index.ts';
import type { ServiceKey } from '../../model/index.ts';
import type { JobAnswer } from '../protocol.ts';
import type { Push } from '../push.ts';
import { ChangeLog, type LoggedChange } from './change-log.ts';
import { ReadIndex } from './read-index.ts';
import { NO_READS, type NumberedReads } from './read-numbers.ts';

/** The properties of a view that this module needs. */
interface Viewed {
  readonly view: View;
}

/** The part of a job's result with its reads. */
export interface JobReads {
  /** Version of the snapshot that the job was generated from. */
  readonly version: number;
  readonly answer: JobAnswer;
  /** The sets of facts that the answer refers to. */
  readonly reads: NumberedReads;
}

/** Whether an answer refers to a set of facts by an unknown number. */
export function namesUnknownReads({ units, failures, lists }: JobAnswer, reads: NumberedReads): boolean {
  const numbers = [...units, ...failures].map((each) => each.reads).concat(Object.values(lists));
  return numbers.some((number) => number !== NO_READS && reads[number] === undefined);
}

/** The key of a part in the read index: a unit, or the list of a type's units. */
const partOf = (type: GeneratedType, unit?: Unit): string => (unit === undefined ? type : `${type}/${unit}`);

export class ViewReads<V extends Viewed> {
  readonly #index = new ReadIndex<V>();
  readonly #log = new ChangeLog<V>();

  /** Number of facts that some view read. */
  get facts(): number {
    return this.#index.size;
  }

  /** A job of the view is submitted while the engine is at this version. */
  begin(view: V, version: number): void {
    this.#log.begin(view, version);
  }

  /** The job has ended, successfully or not. */
  end(view: V): void {
    this.#log.end(view);
  }

  /**
   * Records the reads of the units of a job.
   * @returns the units that changes after the job's snapshot touch, with the pushes of these changes
   */
  commit(view: V, { version, answer, reads }: JobReads): readonly (readonly [UnitSelection, Push])[] {
    const made: Partial<Record<GeneratedType, { list: TypeReads['list']; units: Map<Unit, readonly string[]> }>> = {};
    const note = (type: GeneratedType, number: number | undefined, unit?: Unit): void => {
      if (number === undefined) return;
      const set = number === NO_READS ? undefined : reads[number];
      if (number !== NO_READS && set === undefined) throw new InternalError('an answer names reads that were not sent');
      this.#index.set(view, partOf(type, unit), set);
      const ofType = made[type] ?? { list: undefined, units: new Map() };
      made[type] = ofType;
      if (unit === undefined) ofType.list = set?.facts;
      else ofType.units.set(unit, set?.facts ?? []);
    };
    for (const { type, unit, reads: number } of [...answer.units, ...answer.failures]) note(type, number, unit);
    for (const type of answer.complete) {
      note(type, answer.lists[type]);
      this.#dropOthers(view, type, made[type]?.units);
    }
    return this.#log.after(version).flatMap(({ changed, push }) => {
      const units = touchedUnits(made, changed, view.view);
      return units === undefined ? [] : [[units, push] as const];
    });
  }

  /** Removes the units of a type that are not among these. */
  #dropOthers(view: V, type: GeneratedType, units: ReadonlyMap<Unit, unknown> | undefined): void {
    const prefix = partOf(type, '');
    const gone = [...this.#index.partsOf(view).keys()].filter(
      (part) => part.startsWith(prefix) && units?.has(part.slice(prefix.length)) !== true,
    );
    for (const part of gone) this.#index.set(view, part, undefined);
  }

  drop(view: V): void {
    this.#log.end(view);
    this.#index.drop(view);
  }

  /** The units that a change touches. The cost follows the size of the result. */
  touchedBy(change: LoggedChange, all: Iterable<V>): ReadonlyMap<V, UnitSelection> {
    this.#log.add(change);
    if (change.changed.everything) return new Map([...all].map((view) => [view, ALL_UNITS]));
    return this.readersOf(change.changed);
  }

  /** The units that read one of these facts. */
  readersOf({ meshWide, scopes }: ChangedFacts): ReadonlyMap<V, UnitSelection> {
    const touched = new Map<V, TouchedUnits>();
    for (const [name, members] of meshWide) this.#mark(touched, name, () => ({ members }));
    for (const [name, changes] of byFact(scopes))
      this.#mark(touched, name, (view) => changes.get(scopeIdOfView(view.view)));
    const selections = new Map<V, UnitSelection>();
    for (const [view, units] of touched) {
      const selection = units.selection();
      if (selection !== undefined) selections.set(view, selection);
    }
    return selections;
  }

  /**
   * @param membersFor the changes of the fact for a view; undefined if there are none
   */
  #mark(
    touched: Map<V, TouchedUnits>,
    name: string,
    membersFor: (view: V) => { readonly members: ReadonlySet<Unit> | undefined } | undefined,
  ): void {
    for (const [view, parts] of this.#index.readersOf(name)) {
      const change = membersFor(view);
      if (change === undefined) continue;
      const units = touched.get(view) ?? new TouchedUnits();
      touched.set(view, units);
      for (const part of parts) {
        const slash = part.indexOf('/');
        if (slash < 0) units.list(part as GeneratedType, change.members);
        else units.add(part.slice(0, slash) as GeneratedType, [part.slice(slash + 1)]);
      }
    }
  }

  /** Views with clusters of these services, and the names of the hosts concerned. */
  withClustersOf(services: Iterable<ServiceKey>): ReadonlyMap<V, readonly string[]> {
    const found = new Map<V, string[]>();
    for (const host of new Set(Array.from(services, hostOfServiceKey))) {
      const cluster = partOf('cds', host);
      for (const [view, parts] of this.#index.readersOf(fact.host(host))) {
        if (!parts.has(cluster)) continue;
        const hosts = found.get(view);
        if (hosts === undefined) found.set(view, [host]);
        else hosts.push(host);
      }
    }
    return found;
  }

  /** The facts that were read for a unit of a view. */
  readsOf(view: V, type: GeneratedType, unit: Unit): readonly string[] {
    return this.#index.partsOf(view).get(partOf(type, unit))?.facts ?? [];
  }
}

/** By fact, then by scope. */
function byFact(
  scopes: ReadonlyMap<string, FactChanges>,
): ReadonlyMap<string, ReadonlyMap<string, { readonly members: ReadonlySet<Unit> | undefined }>> {
  const facts = new Map<string, Map<string, { readonly members: ReadonlySet<Unit> | undefined }>>();
  for (const [scope, changes] of scopes) {
    for (const [name, members] of changes) {
      const known = facts.get(name);
      if (known === undefined) facts.set(name, new Map([[scope, { members }]]));
      else known.set(scope, { members });
    }
  }
  return facts;
}
