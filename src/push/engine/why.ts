/** Why a proxy has what it has: which units its resources are of, and what was read for them. */
import { factsAbout, scopeIdOfView } from '../../generate/index.ts';
import { GENERATED_TYPES, type GeneratedType, type Unit, type View } from '../../generate/types.ts';
import type { MeshSnapshot, Service } from '../../model/types.ts';
import type { ResourceKey } from '../../resources/types.ts';
import type { ViewReads } from '../reads/index.ts';
import type { SessionView } from '../sessions/index.ts';

/** What a resource of a proxy was made of. */
export interface Reason {
  readonly type: GeneratedType;
  readonly view: string;
  readonly unit: Unit;
  /** In the order in which it was read: facts, such as `host reviews.shop.svc.cluster.local`. */
  readonly facts: readonly string[];
  /** Documents that these facts were of when this was asked. */
  readonly documents: readonly ResourceKey[];
}

/** Units of one view that have read a document, by type; `all`: all of them. */
export type ReadUnits = Readonly<Partial<Record<GeneratedType, 'all' | readonly Unit[]>>>;

/** What the views of a proxy have of this name. */
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

/** The views that have read a document, and for which of their units. */
export function readersOfDocument(
  key: ResourceKey,
  views: Iterable<SessionView>,
  mesh: MeshSnapshot,
  reads: ViewReads<SessionView>,
): ReadonlyMap<SessionView, ReadUnits> {
  const scopes = new Set(Array.from(views, ({ view }) => scopeIdOfView(view)));
  const found = new Map<SessionView, ReadUnits>();
  for (const [state, selection] of reads.readersOf(factsAbout(mesh, key, scopes))) {
    const units: Partial<Record<GeneratedType, 'all' | readonly Unit[]>> = {};
    for (const type of GENERATED_TYPES) {
      const selected = selection[type];
      if (selected !== undefined) units[type] = selected === 'all' ? 'all' : [...selected].sort();
    }
    found.set(state, units);
  }
  return found;
}

/** The resource's key in a fact. */
const KEY = /(?:^|^key pair |^authorities |^asked by )([A-Z][A-Za-z]*\/[^ /]*\/[^ ]+)/;

/** The documents behind a fact; facts about many documents at once have none of their own. */
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
