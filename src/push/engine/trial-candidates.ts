/**
 * Which proxies can say something about a changed resource: those that are sent it. Proxies on demand hold a part of
 * their view; where none of them holds what changed there is nothing to try.
 */
import type { Before, Item } from '../canary/index.ts';
import type { PlacedSessionView, Session, SessionView } from '../sessions/index.ts';
import type { ConcernedNames } from '../types.ts';

/** @param before what the placements had before the commit that is tried */
export function trialCandidates(
  view: SessionView,
  before: Before<PlacedSessionView>,
  items: ReadonlyMap<string, Item>,
  concerned: ConcernedNames | undefined,
): ReadonlySet<Session> {
  if (concerned === undefined) return view.sessions;
  const types = new Set(Array.from(items.values(), ({ type }) => type));
  const found = new Set<Session>();
  for (const placed of view.placements()) {
    const { bundles, held } = placed;
    const accepted = held?.shown ?? before.get(placed) ?? bundles;
    const names = [...types].map((type) => concerned(type, accepted[type], bundles[type]));
    const all = names.flatMap((each) => each ?? []);
    const sessions = names.includes(undefined) ? placed.sessions : placed.holdersOf(all);
    for (const session of sessions) found.add(session);
  }
  return found;
}
