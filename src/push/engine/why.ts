/** Why a proxy has a resource: the unit that it belongs to, and what was read to generate it. */
import {
  factsAbout,
  GENERATED_TYPES,
  type GeneratedType,
  scopeIdOfView,
  type Unit,
  type View,
} from '../../generate/index.ts';
import type { MeshSnapshot, Service } from '../../model/index.ts';
import type { ResourceKey } from '../../resources/index.ts';
import type { ViewReads } from '../reads/index.ts';
import type { Session, SessionView } from '../sessions/index.ts';
import type { WithheldOfView, WithheldResource } from '../types.ts';

/** The inputs from which a resource of a proxy was generated. */
export interface Reason {
  readonly type: GeneratedType;
  readonly view: string;
  readonly unit: Unit;
  /** The facts, in the order in which they were read, such as `host reviews.shop.svc.cluster.local`. */
  readonly facts: readonly string[];
  /** The documents behind these facts, as of this call. */
  readonly documents: readonly ResourceKey[];
}

/** Units of one view that read a document, by type; `all`: all of them. */
export type ReadUnits = Readonly<Partial<Record<GeneratedType, 'all' | readonly Unit[]>>>;

/** Where the views of a proxy have a resource of this name. */
export function reasonsFor(
  name: string,
  views: Iterable<SessionView>,
  mesh: MeshSnapshot,
  reads: ViewReads<SessionView>,
): Reason[] {
  const found: Reason[] = [];
  for (const state of new Set(views)) {
    for (const type of GENERATED_TYPES) {
      const unit = state.unitOf(type, name);
      if (unit === undefined) continue;
      const facts = reads.readsOf(state, type, unit);
      const documents = new Set(facts.flatMap((fact) => documentsOf(fact, mesh, state.view)));
      found.push({ type, view: state.key, unit, facts, documents: [...documents].sort() });
    }
  }
  return found;
}

/** Most withheld resources of a view whose documents are looked up: an EnvoyFilter may spoil thousands. */
const MAX_EXPLAINED = 100;

/** The resources that are withheld from the proxies of a view, with the documents that they were generated from. */
export function withMakers(
  withheld: Iterable<WithheldResource>,
  view: SessionView,
  mesh: MeshSnapshot,
  reads: ViewReads<SessionView>,
): WithheldOfView[] {
  return Array.from(withheld, (resource, index) => {
    const reasons = index < MAX_EXPLAINED ? reasonsFor(resource.name, [view], mesh, reads) : [];
    const documents = reasons.flatMap(({ type, documents }) => (type === resource.type ? documents : []));
    return { ...resource, view: view.key, namespace: view.view.namespace, documents };
  });
}

/** The sessions for whose configuration a document was read, and for which units of their views. */
export function sessionsReading(
  document: ResourceKey,
  views: Iterable<SessionView>,
  mesh: MeshSnapshot,
  reads: ViewReads<SessionView>,
): ReadonlyMap<Session, readonly ReadUnits[]> {
  const scopes = new Set(Array.from(views, ({ view }) => scopeIdOfView(view)));
  const found = new Map<Session, ReadUnits[]>();
  for (const [view, selection] of reads.readersOf(factsAbout(mesh, document, scopes))) {
    const units: Partial<Record<GeneratedType, 'all' | readonly Unit[]>> = {};
    for (const type of GENERATED_TYPES) {
      const selected = selection[type];
      if (selected !== undefined) units[type] = selected === 'all' ? 'all' : [...selected].sort();
    }
    for (const session of view.sessions) found.set(session, [...(found.get(session) ?? []), units]);
  }
  return found;
}

/** The resource's key in a fact. */
const KEY = /(?:^|^key pair |^authorities |^asked by )([A-Z][A-Za-z]*\/[^ /]*\/[^ ]+)/;

/** The documents behind a fact; empty for facts about many documents at once. */
function documentsOf(name: string, mesh: MeshSnapshot, view: View): readonly ResourceKey[] {
  const [, key] = KEY.exec(name) ?? [];
  if (key !== undefined) return [key];
  const space = name.indexOf(' ');
  const [what, about] = [name.slice(0, Math.max(0, space)), name.slice(space + 1)];
  const scope = mesh.scopeById(scopeIdOfView(view));
  const sourceOf = (service: Service | undefined) => (service === undefined ? [] : [service.source]);
  switch (what) {
    case 'host':
      return sourceOf(scope?.services.get(about));
    case 'rule':
    case 'hash':
    case 'forwarding':
    case 'TLS':
      return scope?.destinationRule(about)?.sources ?? [];
    case 'peers':
    case 'endpoints':
      return sourceOf(mesh.services.get(about));
    case 'routes':
    case 'connections':
      return about.startsWith('of ')
        ? mesh.virtualServicesOfGateway(about.slice('of '.length)).map((each) => each.key)
        : [];
    default:
      return [];
  }
}
