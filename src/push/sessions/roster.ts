/**
 * All sessions, and the facts that were read to determine their views: a change of these facts may change the views.
 */
import type { ProxyNode } from '../../core/proxy.ts';
import type { Facts } from '../../generate/index.ts';
import type { ChangeSet, Snapshot } from '../../model/index.ts';
import { changedProxyFacts, isReadPerReplica, type LabelledWorkload, workloadText } from '../proxies/index.ts';
import { ReadIndex, ReadSet } from '../reads/index.ts';
import type { Session } from './session.ts';

/** A value that sessions share, kept while one of them uses it. */
interface Shared<T> {
  /** The key of the value: one string for all sessions. */
  readonly text: string;
  readonly value: T;
  readonly users: Set<Session>;
}

export class Roster {
  readonly #all = new Set<Session>();
  readonly #index = new ReadIndex<Session>();
  /** By the string form of the facts: the number of entries is that of workloads, however many replicas these have. */
  readonly #sets = new Map<string, Shared<ReadSet>>();
  readonly #setOf = new Map<Session, Shared<ReadSet>>();
  readonly #workloads = new Map<string, Shared<LabelledWorkload>>();

  get all(): ReadonlySet<Session> {
    return this.#all;
  }

  add(session: Session): void {
    this.#all.add(session);
    share(this.#workloads, workloadText(session.node), session, () => session.node);
  }

  /** Replaces the node of a session by one with other labels. */
  relabel(session: Session, node: ProxyNode): void {
    if (session.node === node || !this.#all.has(session)) return;
    unshare(this.#workloads, workloadText(session.node), session);
    session.node = node;
    share(this.#workloads, workloadText(node), session, () => node);
  }

  delete(session: Session): void {
    if (!this.#all.delete(session)) return;
    this.#index.drop(session);
    unshare(this.#workloads, workloadText(session.node), session);
    unshare(this.#sets, this.#setOf.get(session)?.text, session);
    this.#setOf.delete(session);
  }

  /** Records the reads that determined the views of a session. */
  note(session: Session, facts: Facts): void {
    if (!this.#all.has(session)) return;
    const common = facts.filter((name) => !isReadPerReplica(name));
    const shared = share(this.#sets, common.join('\n'), session, () => new ReadSet(common));
    const before = this.#setOf.get(session);
    if (before !== shared) unshare(this.#sets, before?.text, session);
    this.#setOf.set(session, shared);
    this.#index.set(session, 'common', shared.value);
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

function share<T>(shared: Map<string, Shared<T>>, text: string, session: Session, make: () => T): Shared<T> {
  const known = shared.get(text) ?? { text, value: make(), users: new Set<Session>() };
  shared.set(text, known);
  known.users.add(session);
  return known;
}

function unshare<T>(shared: Map<string, Shared<T>>, text: string | undefined, session: Session): void {
  const known = text === undefined ? undefined : shared.get(text);
  known?.users.delete(session);
  if (text !== undefined && known?.users.size === 0) shared.delete(text);
}
