/** The sessions of connected proxies and the queue of pushes to them. */
export { NOTHING_SHARED } from './parts.ts';
export { QUANTUM_MS } from './push-queue.ts';
export { Roster } from './roster.ts';
export {
  type PlacedSessionView,
  Session,
  type SessionHost,
  type SessionView,
} from './session.ts';
export { SessionPushes } from './session-pushes.ts';
