/**
 * HTTPRoutes and GRPCRoutes with common hostnames: a listener accepts only one of them: the oldest, or of equal age the
 * first by name (GRPCRouteSpec.hostnames). Routes of the same kind are merged instead.
 */
import type { ResourceKey } from '../../../resources/index.ts';
import { HostnameSet } from '../listeners/hostnames.ts';
import type { RouteKind } from '../listeners/listeners.ts';
import { compareRoutes } from '../precedence.ts';
import type { Attachment, ParentResult } from './attachments.ts';

interface Candidate {
  readonly key: ResourceKey;
  readonly kind: RouteKind;
  readonly created: number | undefined;
  /** `namespace/name` */
  readonly route: string;
  readonly hostnames: readonly string[];
}

/** Why routes are refused, by key: the route that takes precedence. */
type Refused = ReadonlyMap<ResourceKey, Candidate>;

const NONE: Refused = new Map();

export class RouteConflicts {
  /** `namespace/name/listener` → its HTTPRoutes and GRPCRoutes. */
  readonly #listeners = new Map<string, Map<ResourceKey, Candidate>>();
  readonly #ofRoute = new Map<ResourceKey, ReadonlySet<string>>();
  readonly #refused = new Map<string, Refused>();
  readonly #changed = new Set<string>();

  /** Sets the listeners to which a route could be attached. */
  set(key: ResourceKey, route: Omit<Candidate, 'key' | 'hostnames'> | undefined, parents: readonly ParentResult[]) {
    const after = new Map<string, Candidate>();
    if (route?.kind === 'HTTPRoute' || route?.kind === 'GRPCRoute') {
      for (const attachment of parents.flatMap(({ attachments }) => attachments))
        after.set(listenerOf(attachment), { ...route, key, hostnames: attachment.hostnames });
    }
    for (const listener of this.#ofRoute.get(key) ?? []) if (!after.has(listener)) this.#remove(key, listener);
    for (const [listener, candidate] of after) this.#add(listener, candidate);
    if (after.size === 0) this.#ofRoute.delete(key);
    else this.#ofRoute.set(key, new Set(after.keys()));
  }

  /** The routes that are refused or accepted since the last call. */
  takeChanged(): ReadonlySet<ResourceKey> {
    const keys = new Set<ResourceKey>();
    for (const listener of this.#changed) {
      const [before, after] = [this.#refused.get(listener) ?? NONE, refusedAmong(this.#listeners.get(listener))];
      for (const [key, winner] of before) if (after.get(key)?.key !== winner.key) keys.add(key);
      for (const key of after.keys()) if (!before.has(key)) keys.add(key);
      if (after.size === 0) this.#refused.delete(listener);
      else this.#refused.set(listener, after);
    }
    this.#changed.clear();
    return keys;
  }

  /** The parents of a route without the listeners that refuse it. */
  accepted(key: ResourceKey, parents: readonly ParentResult[]): readonly ParentResult[] {
    return parents.map((parent) => {
      const winnerAt = (attachment: Attachment) => this.#refused.get(listenerOf(attachment))?.get(key);
      const attachments = parent.attachments.filter((attachment) => winnerAt(attachment) === undefined);
      if (attachments.length === parent.attachments.length) return parent;
      if (attachments.length > 0) return { ...parent, attachments };
      const [first] = parent.attachments;
      const winner = first && winnerAt(first);
      const message = `${winner?.kind} ${winner?.route} takes precedence: it has hostnames of this route`;
      return { ...parent, attachments, complaint: { reason: 'HostnameConflict', message } };
    });
  }

  #add(listener: string, candidate: Candidate): void {
    const routes = this.#listeners.get(listener) ?? new Map<ResourceKey, Candidate>();
    this.#listeners.set(listener, routes);
    const before = routes.get(candidate.key);
    routes.set(candidate.key, candidate);
    if (JSON.stringify(before) !== JSON.stringify(candidate)) this.#changed.add(listener);
  }

  #remove(key: ResourceKey, listener: string): void {
    const routes = this.#listeners.get(listener);
    routes?.delete(key);
    if (routes?.size === 0) this.#listeners.delete(listener);
    this.#changed.add(listener);
  }
}

function refusedAmong(candidates: ReadonlyMap<ResourceKey, Candidate> | undefined): Refused {
  const all = [...(candidates?.values() ?? [])];
  if (!all.some(({ kind }) => kind === 'GRPCRoute') || !all.some(({ kind }) => kind === 'HTTPRoute')) return NONE;
  const ordered = all.sort((a, b) => compareRoutes(a, b) || (a.kind < b.kind ? -1 : 1));
  const accepted = { HTTPRoute: new HostnameSet<Candidate>(), GRPCRoute: new HostnameSet<Candidate>() };
  const refused = new Map<ResourceKey, Candidate>();
  for (const candidate of ordered) {
    const { kind, hostnames } = candidate;
    const [own, other] =
      kind === 'GRPCRoute' ? [accepted.GRPCRoute, accepted.HTTPRoute] : [accepted.HTTPRoute, accepted.GRPCRoute];
    const winner = other.firstCommon(hostnames);
    if (winner !== undefined) refused.set(candidate.key, winner);
    else for (const hostname of hostnames) own.add(hostname, candidate);
  }
  return refused;
}

function listenerOf({ gateway, listener }: Attachment): string {
  return `${gateway.namespace}/${gateway.name}/${listener.name}`;
}
