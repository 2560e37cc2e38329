/** Which limit applies to a value of a quota instance, and by which key its use is counted. */
import { CtlError } from '../../core/errors.ts';
import type { MemoryQuota, QuotaOverride } from '../types.ts';
import { type Built, textOf } from './types.ts';

/** Longest key; of a longer one the hash would do, but dimensions are meant to be short. */
const MAX_KEY_CHARACTERS = 2_048;

export interface Limit<Q extends MemoryQuota> {
  readonly quota: Q;
  readonly maxAmount: number;
  readonly validDurationMs: number;
  readonly key: string;
}

/**
 * The limit for a value. Throws CtlError: `not_found` when the handler has no quota for the instance,
 * `invalid_argument` when the dimensions are too long.
 */
export function limitFor<Q extends MemoryQuota>(quotas: readonly Q[], { instance, value }: Built): Limit<Q> {
  const quota = quotas.find(({ name }) => name === instance.id);
  if (quota === undefined || value.template !== 'quota')
    throw new CtlError('not_found', `the handler has no quota ${instance.id}`);
  const dimensions = new Map([...value.dimensions].map(([name, each]) => [name, textOf(each)]));
  const { maxAmount, validDurationMs } = quota.overrides.find((each) => applies(each, dimensions)) ?? quota;
  const key = JSON.stringify([quota.name, ...[...dimensions].sort(([a], [b]) => (a < b ? -1 : 1))]);
  if (key.length > MAX_KEY_CHARACTERS)
    throw new CtlError('invalid_argument', `the dimensions are longer than ${MAX_KEY_CHARACTERS} characters`);
  return { quota, maxAmount, validDurationMs, key };
}

function applies({ dimensions }: QuotaOverride, given: ReadonlyMap<string, string>): boolean {
  for (const [name, value] of dimensions) if (given.get(name) !== value) return false;
  return true;
}
