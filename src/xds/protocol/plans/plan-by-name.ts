/**
 * Plans for a proxy with exceptions: some names are forced, withheld or in doubt. The names that may differ are
 * compared one by one.
 */
import type { Bundle, EncodedResource } from '../../../push/index.ts';
import { type ClientState, exceptions, findResource, type KnownResource } from '../client-state.ts';
import { covers, type Interest } from '../interest.ts';
import { addDifferences, type KnownDoubts } from '../rejections/doubts.ts';
import type { KnownRejections } from '../rejections/rejection.ts';
import { ResourceLists } from '../selection.ts';
import type { ForcedNames } from '../unanswered/forced-names.ts';
import type { Plan } from './plan.ts';
import type { RemovalPolicy } from './removal-policy.ts';

/** The known state of one type of a proxy. */
export interface KnownProxy {
  readonly state: ClientState;
  readonly forced: Pick<ForcedNames, 'next' | 'has'>;
  readonly doubts: KnownDoubts;
  readonly rejections: KnownRejections;
  /** The version of a resource that the proxy has, if known. */
  known(name: string): KnownResource | undefined;
}

export function planByName(
  proxy: KnownProxy,
  interest: Interest,
  parts: readonly Bundle[],
  removes: RemovalPolicy,
): Plan {
  const changed: EncodedResource[] = [];
  const removed: string[] = [];
  const overlay: [string, KnownResource | undefined][] = [];
  for (const name of touched(proxy, parts)) {
    if (!covers(interest, name)) continue;
    const now = findResource(parts, name);
    const known = proxy.known(name);
    const forced = proxy.forced.has(name);
    if (now === undefined) {
      if (forced || (known !== undefined && removes(name))) removed.push(name);
      else if (known !== undefined) overlay.push([name, known]);
    } else if (forced || known?.version !== now.version) {
      if (!proxy.rejections.isHeldBack(name, now.version)) changed.push(now);
      else if (known?.version !== now.version) overlay.push([name, known]);
    }
  }
  const next = { bases: parts, overlay: exceptions(overlay) };
  return { changed: new ResourceLists([changed]), removed, next, shared: undefined };
}

/** Names whose version may differ between the proxy and the parts. */
function touched({ state, forced, doubts }: KnownProxy, parts: readonly Bundle[]): Set<string> {
  const names = new Set<string>(forced.next);
  doubts.touch(names, parts);
  addDifferences(names, state, parts);
  return names;
}

/**
 * The next response of the search for rejected resources. Other changes are sent after the search, so that the cost of
 * a step follows the number of resources that it tries.
 */
export function planSearch({ state, rejections }: KnownProxy, interest: Interest, parts: readonly Bundle[]): Plan {
  const changed: EncodedResource[] = [];
  const overlay = new Map(state.overlay);
  for (const suspect of rejections.suspects()) {
    const { name, version } = suspect;
    if (findResource(parts, name)?.version !== version) continue;
    if (!covers(interest, name) || rejections.isHeldBack(name, version)) continue;
    changed.push(suspect);
    overlay.set(name, { version, resource: suspect });
  }
  return {
    changed: new ResourceLists([changed]),
    removed: [],
    next: { bases: state.bases, overlay },
    shared: undefined,
    ofSearch: true,
  };
}
