/** The sessions of connected proxies and the queue of pushes to them. */
export { Roster } from './roster.ts';
export {
  mergedPush,
  NOTHING_SHARED,
  type PlacedSessionView,
  type PostponedPush,
  Session,
  type SessionHost,
  type SessionView,
} from './session.ts';
export { SessionPushes } from './session-pushes.ts';
