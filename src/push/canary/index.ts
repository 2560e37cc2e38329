/**
 * Tries changed resources at a few proxies of a view first, and withholds from the others what Envoy rejects. Why it is
 * built so: docs/decisions/0011-canaries.md
 */
export { type Before, Gate } from './gate.ts';
export { Trial } from './trial.ts';
export type { Item, Withheld } from './withheld.ts';
