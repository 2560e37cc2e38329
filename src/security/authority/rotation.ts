/**
 * When a self-signed root is replaced, and how: first the new root is announced (it joins the trust bundle and spreads,
 * the old one signs on), then, at least one check interval later, it signs, and the old one stays trusted until it
 * ends. Pure: what is to be done follows from the lives of the roots and the time. All times are epoch milliseconds.
 *
 *   keep ──grace period begins──▶ announce ──one check interval──▶ switch ──▶ keep
 *   keep ──the root ends before it was replaced──▶ replace (announce and switch in one)
 */

export interface RootLife {
  readonly notBefore: number;
  readonly notAfter: number;
}

export interface RotationSettings {
  /** Between two checks; zero or negative: the root is never replaced. */
  readonly intervalMs: number;
  /** The last part of a root's life in which it is to be replaced, percent. */
  readonly gracePercentile: number;
}

export interface RotationState {
  readonly current: RootLife;
  /** When the next root was announced, if one was. */
  readonly announcedAt: number | undefined;
  /** Since when this program has been serving the trust bundle: nobody learnt of a root while it was not. */
  readonly servingSince: number;
}

export type RotationStep = 'keep' | 'announce' | 'switch' | 'replace';

/** The last moments of a root, in which what it signs helps nobody: 1 % of its life, at most this long. */
const MAX_LAST_MOMENTS_MS = 60_000;

/** A check that finds nothing to do is not repeated sooner than this, whatever the times say. */
const MIN_WAIT_MS = 100;

/** When a root stops being of use as a signer. */
function lastUse({ notBefore, notAfter }: RootLife): number {
  return notAfter - Math.min(MAX_LAST_MOMENTS_MS, (notAfter - notBefore) / 100);
}

function graceBegins(root: RootLife, gracePercentile: number): number {
  return root.notAfter - ((root.notAfter - root.notBefore) * gracePercentile) / 100;
}

/** When an announced root has had time to spread: every program that asks once per interval has asked. */
function spreadAt({ announcedAt, servingSince }: RotationState, intervalMs: number): number | undefined {
  return announcedAt === undefined ? undefined : Math.max(announcedAt, servingSince) + intervalMs;
}

export function rotationStep(
  state: RotationState,
  { intervalMs, gracePercentile }: RotationSettings,
  now: number,
): RotationStep {
  if (intervalMs <= 0) return 'keep';
  const over = now >= lastUse(state.current);
  const spread = spreadAt(state, intervalMs);
  if (spread !== undefined) return over || now >= spread ? 'switch' : 'keep';
  if (over) return 'replace';
  return now >= graceBegins(state.current, gracePercentile) ? 'announce' : 'keep';
}

/** How long to wait for the next check, ms: an interval, or less when a root spreads or ends before. */
export function nextCheckMs(state: RotationState, { intervalMs }: RotationSettings, now: number): number {
  const at = Math.min(
    now + intervalMs,
    spreadAt(state, intervalMs) ?? Number.POSITIVE_INFINITY,
    lastUse(state.current),
  );
  return Math.max(MIN_WAIT_MS, at - now);
}
