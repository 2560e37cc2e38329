/** All scenarios of the bench `neighbours`. */
import { COSTLY_DOCUMENTS } from './costly-documents.ts';
import { COSTLY_REVIEWS } from './costly-reviews.ts';
import { EGRESS_LISTENERS } from './egress-listeners.ts';
import { EXPRESSIONS } from './expressions.ts';
import { LABELS } from './labels.ts';
import { NAMES } from './names.ts';
import { PATCHES } from './patches.ts';
import { REJECTING_CLIENTS } from './rejecting-clients.ts';
import type { Scenario } from './scenario.ts';
import { STALLED_READERS } from './stalled-readers.ts';
import { SUBSETS } from './subsets.ts';

export const SCENARIOS: readonly Scenario[] = [
  ...STALLED_READERS,
  REJECTING_CLIENTS,
  NAMES,
  EXPRESSIONS,
  ...PATCHES,
  EGRESS_LISTENERS,
  SUBSETS,
  LABELS,
  ...COSTLY_DOCUMENTS,
  ...COSTLY_REVIEWS,
];
