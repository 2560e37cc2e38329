/**
 * Decides when and how a self-signed root is replaced. First the new root is announced: it joins the trust bundle and
 * is distributed, while the old one still signs. At least one check interval later the new root signs, and the old one
 * stays trusted until it expires. Pure: the next step follows from the validity of the roots and the time. All times
 * are epoch milliseconds.
 *
 *   keep ──grace period begins──▶ announce ──one check interval──▶ switch ──▶ keep
 *   keep ──the root expires before it was replaced──▶ replace (announce and switch in one)
 */

export interface RootLife {
  readonly notBefore: number;
  readonly notAfter: number;
}

export interface RotationSettings {
  /** The time between two checks; zero or negative: the root is never replaced. */
  readonly intervalMs: number;
  /** The last part of a root's lifetime, in which it is replaced, percent. */
  readonly gracePercentile: number;
}

export interface RotationState {
  readonly current: RootLife;
  /**
   * Since when this program has served the next root, by its own clock; undefined when there is none. The clock of the
   * program that announced it may differ, and peers of this program can only trust it from then on.
   */
  readonly nextServedSince: number | undefined;
}

export type RotationStep = 'keep' | 'announce' | 'switch' | 'replace';

/** The end of a root's life, in which its certificates would be useless: 1 % of its life, at most this long. */
const MAX_LAST_MOMENTS_MS = 60_000;

/** The minimum time between two checks. */
const MIN_WAIT_MS = 100;

/** When a root stops signing. */
function lastUse({ notBefore, notAfter }: RootLife): number {
  return notAfter - Math.min(MAX_LAST_MOMENTS_MS, (notAfter - notBefore) / 100);
}

/**
 * The maximum percentage: each root stays trusted until it expires, and the number of trusted roots must stay small.
 */
const MAX_GRACE_PERCENTILE = 99;

function graceBegins(root: RootLife, gracePercentile: number): number {
  const part = Math.min(MAX_GRACE_PERCENTILE, gracePercentile) / 100;
  return root.notAfter - (root.notAfter - root.notBefore) * part;
}

/** When an announced root has been distributed: every program that polls once per interval has fetched it. */
function spreadAt({ nextServedSince }: RotationState, intervalMs: number): number | undefined {
  return nextServedSince === undefined ? undefined : nextServedSince + intervalMs;
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

/**
 * The time until the next check, ms: an interval, or less when a root will have been distributed or will expire before.
 */
export function nextCheckMs(state: RotationState, { intervalMs }: RotationSettings, now: number): number {
  const at = Math.min(
    now + intervalMs,
    spreadAt(state, intervalMs) ?? Number.POSITIVE_INFINITY,
    lastUse(state.current),
  );
  return Math.max(MIN_WAIT_MS, at - now);
}
