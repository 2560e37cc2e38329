/** Compares the endpoints that proxies are sent before and after a change. They are resolved on the main thread. */
import type { Slices } from '../core/slices.ts';
import {
  type ClientView,
  type EdsInput,
  encodeEndpoints,
  endpointsOfHost,
  isClientView,
  type Placement,
  scopeIdOfView,
  type View,
} from '../generate/index.ts';
import type { Snapshot } from '../model/index.ts';
import { contentVersion, ResourceChanges, type TouchedPart } from '../push/index.ts';

/** The changed endpoints of a part, in each placement. */
export type EndpointNumbers = readonly (readonly number[])[];

export interface ComparedEndpoints {
  readonly changes: ResourceChanges;
  /** For each part; undefined where there was no time to compare it. */
  readonly parts: readonly (EndpointNumbers | undefined)[];
}

type Inputs = ReadonlyMap<string, EdsInput>;

const NOTHING: Inputs = new Map();

/** Yields after each host of a placement. @param isLate whether the rest is left out */
export function* compareEndpoints(
  before: Snapshot,
  after: Snapshot,
  parts: readonly TouchedPart[],
  isLate: () => boolean,
): Slices<ComparedEndpoints> {
  const changes = new ResourceChanges();
  const compared: (EndpointNumbers | undefined)[] = [];
  for (const part of parts) {
    const [was, is] = [clientOf(part.before), clientOf(part.after)];
    const hosts = part.hosts === 'all' ? [...hostsOf(before, was), ...hostsOf(after, is)] : part.hosts;
    const placed: number[][] = [];
    let left = false;
    for (const placement of part.placements) {
      const numbers: number[] = [];
      for (const host of new Set(hosts)) {
        left ||= isLate();
        if (left) break;
        const sides = [
          inputsOf(before, was, placement.before, host),
          inputsOf(after, is, placement.after, host),
        ] as const;
        numbers.push(...changedOf(sides, changes));
        yield;
      }
      placed.push(numbers);
    }
    compared.push(left ? undefined : placed);
  }
  return { changes, parts: compared };
}

function clientOf(view: View | undefined): ClientView | undefined {
  return view !== undefined && isClientView(view) ? view : undefined;
}

function hostsOf(snapshot: Snapshot, view: ClientView | undefined): readonly string[] {
  const scope = view && snapshot.scopeById(scopeIdOfView(view));
  return scope === undefined ? [] : [...scope.services.keys()];
}

function inputsOf(snapshot: Snapshot, view: ClientView | undefined, placement: Placement, host: string): Inputs {
  if (view === undefined || snapshot.scopeById(scopeIdOfView(view)) === undefined) return NOTHING;
  try {
    return endpointsOfHost(snapshot, view, placement, host);
  } catch {
    // They keep their last version.
    return NOTHING;
  }
}

function* changedOf([before, after]: readonly [Inputs, Inputs], changes: ResourceChanges): Generator<number> {
  if (before === after) return;
  for (const cluster of new Set([...before.keys(), ...after.keys()])) {
    const [was, is] = [before.get(cluster), after.get(cluster)];
    // The key identifies all inputs besides the list.
    if (was?.key === is?.key && was?.endpoints === is?.endpoints) continue;
    const [one, other] = [was && encoded(was), is && encoded(is)];
    if (one?.version !== other?.version) yield changes.numberOf('eds', one, other);
  }
}

function encoded(input: EdsInput) {
  const bytes = encodeEndpoints(input);
  return { name: input.name, version: contentVersion(bytes), pieces: [bytes] };
}
