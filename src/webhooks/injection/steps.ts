/** The steps after the templates. */
import { warnOfLikelyMistakes } from './likely-wrong.ts';
import { orderContainers } from './order.ts';
import type { InjectionStep } from './step.ts';

/** In this order. */
export const STEPS: readonly InjectionStep[] = [orderContainers, warnOfLikelyMistakes];
