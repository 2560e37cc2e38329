/**
 * Statuses of objects of an API server: what each object should have is compared with what it has, and the difference
 * is written by the replica that leads. What the proxies of other replicas have, it reads in their reports.
 */
export { KindObjects, type KindObjectsOptions, type StatusObject, statusKey } from './kind-objects.ts';
export { apiFields, mergedConditions } from './merged-conditions.ts';
export { ReportExchange } from './reports/report-exchange.ts';
export type { ReportKind, ReportLeaseOptions, ReportPlace } from './reports/report-lease.ts';
export { encodeEntries, MAX_BYTES, splitReport } from './reports/report-text.ts';
export { type NextVisit, Rounds } from './rounds.ts';
export { type StatusRules, StatusWriter } from './status-writer.ts';
export {
  type Condition,
  recordsOf,
  type StatusAccess,
  type StatusFields,
  type WantedStatus,
  type WantedStatuses,
} from './types.ts';
