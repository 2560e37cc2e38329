/** All sessions, and which of them may have other views after a change: of the others nothing is looked at. */
import { readsSameLocalities } from '../generate/index.ts';
import { addressOfKey, labelsMatch, networkAddress } from '../model/index.ts';
import type { ChangeSet, Snapshot, WorkloadSelection } from '../model/types.ts';
import type { Session, SessionView } from './session.ts';

/** Sessions with the same labels. */
interface LabelGroup {
  readonly labels: Readonly<Record<string, string>>;
  readonly sessions: Set<Session>;
}

export class Roster {
  readonly #all = new Set<Session>();
  readonly #byAddress = new Map<string, Set<Session>>();
  /** Namespace → labels as text → the sessions that have them: as many groups as there are workloads, however many replicas. */
  readonly #byLabels = new Map<string, Map<string, LabelGroup>>();
  /** Views of a scope. */
  readonly viewsOf: (scope: string) => Iterable<SessionView>;

  constructor(viewsOf: (scope: string) => Iterable<SessionView>) {
    this.viewsOf = viewsOf;
  }

  get all(): ReadonlySet<Session> {
    return this.#all;
  }

  at(address: string): Iterable<Session> {
    return this.#byAddress.get(address) ?? [];
  }

  /** Sessions of the workloads that some selection selects. */
  *selected(selections: readonly WorkloadSelection[]): Generator<Session> {
    for (const { namespace, labels } of selections) {
      const namespaces = namespace === undefined ? this.#byLabels.values() : [this.#byLabels.get(namespace)];
      for (const groups of namespaces) {
        for (const group of groups?.values() ?? []) if (labelsMatch(labels, group.labels)) yield* group.sessions;
      }
    }
  }

  add(session: Session): void {
    this.#all.add(session);
    const { namespace, labels } = session.node;
    const groups = this.#byLabels.get(namespace) ?? new Map<string, LabelGroup>();
    this.#byLabels.set(namespace, groups);
    const text = labelsText(labels);
    const group = groups.get(text);
    if (group === undefined) groups.set(text, { labels, sessions: new Set([session]) });
    else group.sessions.add(session);
    for (const address of session.node.addresses) {
      const sessions = this.#byAddress.get(address);
      if (sessions === undefined) this.#byAddress.set(address, new Set([session]));
      else sessions.add(session);
    }
  }

  delete(session: Session): void {
    if (!this.#all.delete(session)) return;
    const { namespace, labels } = session.node;
    const groups = this.#byLabels.get(namespace);
    const text = labelsText(labels);
    const group = groups?.get(text);
    group?.sessions.delete(session);
    if (group?.sessions.size === 0) groups?.delete(text);
    if (groups?.size === 0) this.#byLabels.delete(namespace);
    for (const address of session.node.addresses) {
      const sessions = this.#byAddress.get(address);
      sessions?.delete(session);
      if (sessions?.size === 0) this.#byAddress.delete(address);
    }
  }
}

/** Sessions whose views may be others than before. */
export function displacedSessions(
  previous: Snapshot,
  next: Snapshot,
  changes: ChangeSet,
  roster: Roster,
): Iterable<Session> {
  if (changes.everything || !readsSameLocalities(previous, next)) return roster.all;
  if (previous.networkNames !== next.networkNames) return roster.all;
  const displaced = new Set<Session>();
  for (const session of boundAnew(changes, next, roster)) displaced.add(session);
  for (const scope of changes.scopes.keys()) {
    if (previous.sourceLabels(scope).join('\n') === next.sourceLabels(scope).join('\n')) continue;
    for (const view of roster.viewsOf(scope)) for (const session of view.sessions) displaced.add(session);
  }
  for (const session of selectedAnew(changes, next, roster)) displaced.add(session);
  for (const session of guardedAnew(changes, roster)) displaced.add(session);
  for (const session of registeredAnew(changes, roster)) displaced.add(session);
  return displaced;
}

/** Sessions at addresses of their networks where other services are served than before. */
function* boundAnew({ addresses }: ChangeSet, next: Snapshot, roster: Roster): Iterable<Session> {
  for (const key of addresses) {
    const address = addressOfKey(key);
    for (const session of roster.at(address))
      if (networkAddress(next.networkOfProxy(session.node, address), address) === key) yield session;
  }
}

/** Sessions whose workloads may be under another peer authentication, or other policies about requests. */
function* guardedAnew({ peerAuthentication, policies }: ChangeSet, roster: Roster): Iterable<Session> {
  yield* roster.selected(policies);
  for (const session of roster.selected(peerAuthentication)) if (session.node.type === 'sidecar') yield session;
}

/** Gateways that may be the workloads they say they are by other pods or workload entries than before. */
function* registeredAnew({ workloads }: ChangeSet, { all }: Roster): Iterable<Session> {
  if (workloads.size === 0) return;
  for (const session of all) {
    const { type, namespace, identity } = session.node;
    if (type === 'router' && identity !== undefined && workloads.has(namespace)) yield session;
  }
}

/** Sessions that a changed Sidecar or Gateway may select, or have selected. */
function* selectedAnew(changes: ChangeSet, next: Snapshot, { all }: Roster): Iterable<Session> {
  const sidecars = new Set<string>();
  let gateways = false;
  for (const key of changes.configs.keys()) {
    const [kind, namespace = ''] = key.split('/');
    if (kind === 'Sidecar') sidecars.add(namespace);
    gateways ||= kind === 'Gateway';
  }
  if (sidecars.size === 0 && !gateways) return;
  const everywhere = sidecars.has(next.settings.rootNamespace);
  for (const session of all) {
    const { type, namespace } = session.node;
    if (type === 'router' ? gateways : everywhere || sidecars.has(namespace)) yield session;
  }
}

function labelsText(labels: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}
