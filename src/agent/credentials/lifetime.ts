/** When tokens are renewed. */

/** The longest time before the expiry at which a token is renewed, ms. */
const GRACE_MS = 300_000;
/** The same for short-lived tokens, as a share of the lifetime. */
const GRACE_RATIO = 0.2;

/** When a token that was received at this time is renewed, epoch ms. */
export function renewsAt(receivedAt: number, expiresAt: number): number {
  return expiresAt - Math.min(GRACE_MS, Math.max(0, expiresAt - receivedAt) * GRACE_RATIO);
}
