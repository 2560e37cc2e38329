/** denier: refuses every request that a rule sends to it. */
import type { DenierParams } from '../types.ts';
import { CODE, type RunningHandler } from './types.ts';

export function openDenier({ status, validDurationMs, validUseCount }: DenierParams): RunningHandler {
  const denied = { status, validDurationMs, validUseCount };
  return {
    daemons: 0,
    workers: 0,
    check: () => denied,
    quota: () => ({ status: { code: CODE.RESOURCE_EXHAUSTED, message: status.message } }),
    close: () => undefined,
  };
}
