/** Percentages: users write 0–100 with fractions, Envoy counts parts of a million. */
import { envoy } from '../../../protobuf/index.ts';
import type { Percent } from '../../../resources/index.ts';
import type { FractionalPercent } from '../messages.ts';

const { MILLION } = envoy.type.v3.FractionalPercent.DenominatorType;
const PARTS_PER_PERCENT = 10_000;

/** Envoy's form of a percentage, limited to 0–100. */
export function fractionalPercent({ value }: Percent): FractionalPercent {
  const parts = Math.round(Math.min(Math.max(value, 0), 100) * PARTS_PER_PERCENT);
  return { numerator: parts, denominator: MILLION };
}
