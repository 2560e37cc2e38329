/** The steps after the templates. */
import { warnOfLikelyMistakes } from './likely-wrong.ts';
import { orderContainers } from './order.ts';
import { rewriteProbes } from './probes.ts';
import { mergeMetrics } from './prometheus.ts';
import { carryProxyUser } from './proxy-user.ts';
import type { InjectionStep } from './step.ts';

/** In this order. */
export const STEPS: readonly InjectionStep[] = [
  orderContainers,
  carryProxyUser,
  rewriteProbes,
  mergeMetrics,
  warnOfLikelyMistakes,
];
