/** All sessions, and which of them may have other views after a change: of the others nothing is looked at. */
import { readsLocality } from '../generate/index.ts';
import type { ChangeSet, Snapshot } from '../model/types.ts';
import type { Session, SessionView } from './session.ts';

export class Roster {
  readonly #all = new Set<Session>();
  readonly #byAddress = new Map<string, Set<Session>>();
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

  add(session: Session): void {
    this.#all.add(session);
    for (const address of session.node.addresses) {
      const sessions = this.#byAddress.get(address);
      if (sessions === undefined) this.#byAddress.set(address, new Set([session]));
      else sessions.add(session);
    }
  }

  delete(session: Session): void {
    this.#all.delete(session);
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
  if (changes.everything || readsLocality(previous) !== readsLocality(next)) return roster.all;
  const displaced = new Set<Session>();
  for (const address of changes.addresses) for (const session of roster.at(address)) displaced.add(session);
  for (const scope of changes.scopes.keys()) {
    if (previous.sourceLabels(scope).join('\n') === next.sourceLabels(scope).join('\n')) continue;
    for (const view of roster.viewsOf(scope)) for (const session of view.sessions) displaced.add(session);
  }
  for (const session of selectedAnew(changes, next, roster)) displaced.add(session);
  for (const session of guardedAnew(changes, roster)) displaced.add(session);
  for (const session of registeredAnew(changes, roster)) displaced.add(session);
  return displaced;
}

/** Sessions whose workloads may be under another peer authentication, or other policies about requests. */
function* guardedAnew({ peerAuthentication, policies }: ChangeSet, { all }: Roster): Iterable<Session> {
  if (isNobody(peerAuthentication) && isNobody(policies)) return;
  for (const session of all) {
    const { type, namespace } = session.node;
    if (concerns(policies, namespace) || (type === 'sidecar' && concerns(peerAuthentication, namespace))) yield session;
  }
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

function isNobody(namespaces: 'all' | ReadonlySet<string>): boolean {
  return namespaces !== 'all' && namespaces.size === 0;
}

function concerns(namespaces: 'all' | ReadonlySet<string>, namespace: string): boolean {
  return namespaces === 'all' || namespaces.has(namespace);
}
