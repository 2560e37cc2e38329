/**
 * The parts of proxies that a change of the mesh would touch, found without publishing it: the views whose units have
 * read what the change changes, and the proxies that would get other views.
 */
import type { Slices } from '../../core/slices.ts';
import {
  ALL_UNITS,
  changedFacts,
  DEFAULT_PLACEMENT,
  GENERATED_TYPES,
  type GeneratedType,
  isClientView,
  type Placement,
  type Unit,
  type UnitSelection,
  type View,
} from '../../generate/index.ts';
import type { ModelChange, Snapshot } from '../../model/index.ts';
import { placementKey, placementOf, viewKey, viewsOf, withCurrentLabels } from '../proxies/index.ts';
import type { PlacedSessionView, Roster, Session, SessionView } from '../sessions/index.ts';
import type { ViewTable } from './view-table.ts';

/** The proxies that go from one placement to another one, mostly the same. */
export interface TouchedPlacement {
  readonly before: Placement;
  readonly after: Placement;
  readonly sessions: Session[];
}

/** Proxies that have the same part before the change, and the same one after it. */
export interface TouchedPart {
  /** Undefined: they have no such part then. */
  readonly before: View | undefined;
  readonly after: View | undefined;
  readonly units: Readonly<Partial<Record<GeneratedType, 'all' | readonly Unit[]>>>;
  /** The hosts whose endpoints may differ; `all`: any. Empty for parts without endpoints. */
  readonly hosts: 'all' | ReadonlySet<string>;
  readonly placements: readonly TouchedPlacement[];
}

export interface TouchedOptions {
  readonly previous: Snapshot;
  readonly change: Pick<ModelChange, 'snapshot' | 'changes'>;
  readonly views: ViewTable;
  readonly roster: Roster;
  /** The proxies that are looked at. */
  readonly isSeen: (session: Session) => boolean;
}

interface Side {
  readonly key: string;
  readonly view: View;
  readonly placement: Placement;
}

interface Part {
  readonly before: View | undefined;
  readonly after: View | undefined;
  readonly selection: UnitSelection;
  readonly types: Set<GeneratedType>;
  readonly hosts: Set<string>;
  readonly placements: Map<string, TouchedPlacement>;
}

/** What a change touches of a view. */
interface Touched {
  readonly units: UnitSelection;
  readonly hosts: readonly string[];
}

const ALL: Touched = { units: ALL_UNITS, hosts: [] };

/** Yields after each proxy. */
export function* touchedParts(options: TouchedOptions): Slices<readonly TouchedPart[]> {
  const { previous, change, views, roster, isSeen } = options;
  const { snapshot, changes } = change;
  const changed = changedFacts(previous, snapshot, changes);
  const selections: ReadonlyMap<SessionView, UnitSelection> = changed.everything
    ? new Map([...views.all()].map((view) => [view, ALL_UNITS]))
    : views.reads.readersOf(changed);
  const endpoints = views.reads.withClustersOf(changes.endpoints);
  const parts = new Map<string, Part>();
  const moved = new Map<PlacedSessionView, Set<Session>>();
  for (const session of roster.displacedBy(previous, snapshot, changes)) {
    if (isSeen(session)) for (const placed of addMoves(parts, session, snapshot)) note(moved, placed, session);
    yield;
  }
  for (const view of new Set([...selections.keys(), ...endpoints.keys()])) {
    const touched = { units: selections.get(view) ?? {}, hosts: endpoints.get(view) ?? [] };
    for (const placed of view.placements())
      for (const session of placed.sessions)
        if (session.has(placed) && isSeen(session) && moved.get(placed)?.has(session) !== true)
          add(parts, session, [sideOf(placed), sideOf(placed)], touched);
    yield;
  }
  return [...parts.values()].flatMap(finished);
}

/** Adds the parts of a proxy that the change replaces. @returns those that it has now */
function* addMoves(parts: Map<string, Part>, session: Session, snapshot: Snapshot): Generator<PlacedSessionView> {
  const node = withCurrentLabels(snapshot, session.node);
  const next = viewsOf(snapshot, node);
  const placement = placementOf(snapshot, node);
  for (const placed of session.views) {
    const view = next.find(({ part }) => part === placed.view.view.part);
    const after = view && { key: viewKey(view), view, placement: isClientView(view) ? placement : DEFAULT_PLACEMENT };
    const before = sideOf(placed);
    if (after?.key === before.key && placementKey(after.placement) === placed.key) continue;
    add(parts, session, [before, after], ALL);
    yield placed;
  }
}

function note(moved: Map<PlacedSessionView, Set<Session>>, placed: PlacedSessionView, session: Session): void {
  const sessions = moved.get(placed) ?? new Set();
  moved.set(placed, sessions.add(session));
}

function sideOf({ view, placement }: PlacedSessionView): Side {
  return { key: view.key, view: view.view, placement };
}

function add(
  parts: Map<string, Part>,
  session: Session,
  [before, after]: readonly [Side, Side | undefined],
  { units: selection, hosts }: Touched,
): void {
  const key = `${before.key} ${after?.key}`;
  const part = parts.get(key) ?? {
    before: before.view,
    after: after?.view,
    selection,
    types: new Set<GeneratedType>(),
    hosts: new Set(hosts),
    placements: new Map<string, TouchedPlacement>(),
  };
  parts.set(key, part);
  for (const type of session.types) part.types.add(type);
  const [from, to] = [before.placement, after?.placement ?? before.placement];
  const placed = `${placementKey(from)} ${placementKey(to)}`;
  const known = part.placements.get(placed);
  if (known === undefined) part.placements.set(placed, { before: from, after: to, sessions: [session] });
  else known.sessions.push(session);
}

/** With the units of the types that the proxies ask for; nothing where they ask for none. */
function finished({ before, after, selection, types, hosts, placements }: Part): readonly TouchedPart[] {
  const units: Partial<Record<GeneratedType, 'all' | readonly Unit[]>> = {};
  for (const type of GENERATED_TYPES) {
    const selected = selection[type];
    if (selected !== undefined && types.has(type)) units[type] = selected === 'all' ? 'all' : [...selected].sort();
  }
  const concerned = types.has('cds') ? hostsOf(hosts, units.cds) : NO_HOSTS;
  if (Object.keys(units).length === 0 && concerned !== 'all' && concerned.size === 0) return [];
  return [{ before, after, units, hosts: concerned, placements: [...placements.values()] }];
}

const NO_HOSTS: ReadonlySet<string> = new Set();

function hostsOf(
  hosts: ReadonlySet<string>,
  clusters: 'all' | readonly Unit[] | undefined,
): 'all' | ReadonlySet<string> {
  return clusters === 'all' ? 'all' : new Set([...hosts, ...(clusters ?? [])]);
}
