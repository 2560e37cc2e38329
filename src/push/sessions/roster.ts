/**
 * All sessions, and the facts that were read to determine their views: a change of these facts may change the views.
 */
import type { Facts } from '../../generate/index.ts';
import type { ChangeSet, Snapshot } from '../../model/index.ts';
import { changedProxyFacts, isReadPerReplica, type LabelledWorkload, workloadText } from '../proxies/index.ts';
import { ReadIndex, ReadSet } from '../reads/index.ts';
import type { Session } from './session.ts';

/** A value that sessions share, kept while one of them uses it. */
interface Shared<T> {
  readonly value: T;
  readonly users: Set<Session>;
}

export class Roster {
  readonly #all = new Set<Session>();
  readonly #index = new ReadIndex<Session>();
  /** By the string form of the facts: the number of entries is that of workloads, however many replicas these have. */
  readonly #sets = new Map<string, Shared<ReadSet>>();
  readonly #setOf = new Map<Session, string>();
  readonly #workloads = new Map<string, Shared<LabelledWorkload>>();

  get all(): ReadonlySet<Session> {
    return this.#all;
  }

  add(session: Session): void {
    this.#all.add(session);
    share(this.#workloads, workloadText(session.node), session, () => session.node);
  }

  delete(session: Session): void {
    if (!this.#all.delete(session)) return;
    this.#index.drop(session);
    unshare(this.#workloads, workloadText(session.node), session);
    unshare(this.#sets, this.#setOf.get(session), session);
    this.#setOf.delete(session);
  }

  /** Records the reads that determined the views of a session. */
  note(session: Session, facts: Facts): void {
    if (!this.#all.has(session)) return;
    const common = facts.filter((name) => !isReadPerReplica(name));
    const text = common.join('\n');
    const set = share(this.#sets, text, session, () => new ReadSet(common));
    const before = this.#setOf.get(session);
    if (before !== text) unshare(this.#sets, before, session);
    this.#setOf.set(session, text);
    this.#index.set(session, 'common', set);
    this.#index.set(session, 'own', new ReadSet(facts.filter(isReadPerReplica)));
  }

  /** Sessions whose views may have changed. */
  displacedBy(previous: Snapshot, next: Snapshot, changes: ChangeSet): Iterable<Session> {
    const changed = changedProxyFacts(previous, next, changes, () =>
      this.#workloads.entries().map(([text, { value }]) => [text, value] as const),
    );
    if (changed === undefined) return [...this.#all];
    const displaced = new Set<Session>();
    for (const name of changed) for (const [session] of this.#index.readersOf(name)) displaced.add(session);
    return displaced;
  }
}

function share<T>(shared: Map<string, Shared<T>>, text: string, session: Session, make: () => T): T {
  const known = shared.get(text) ?? { value: make(), users: new Set<Session>() };
  shared.set(text, known);
  known.users.add(session);
  return known.value;
}

function unshare<T>(shared: Map<string, Shared<T>>, text: string | undefined, session: Session): void {
  const known = text === undefined ? undefined : shared.get(text);
  known?.users.delete(session);
  if (text !== undefined && known?.users.size === 0) shared.delete(text);
}
