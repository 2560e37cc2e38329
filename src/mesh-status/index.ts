/**
 * Statuses of mesh resources in a cluster: the condition Reconciled (CTL_ENABLE_STATUS), computed from what the proxies
 * of all replicas acknowledge, and the findings of analysis (CTL_ENABLE_ANALYSIS). The replica that leads writes them.
 *
 *   API server ──objects with their statuses──▶ documents that are not settled ──▶ reports of all replicas ─┐
 *   streams of proxies ──acknowledgements─────▶                                                           ├─▶ statuses
 *   snapshots ──▶ analysis ──findings──────────────────────────────────────────────────────────────────────┘
 */
export { DocumentAcknowledgements } from './acknowledgements/document-acknowledgements.ts';
export { namespacesOf } from './acknowledgements/followed-proxies.ts';
export type { DocumentInForce, Rejection } from './acknowledgements/open-documents.ts';
export { MeshFindings } from './findings/mesh-findings.ts';
export { MeshObjects } from './mesh-objects.ts';
export { MeshStatuses, type ReconciledSources } from './mesh-statuses.ts';
export { isSettled, type RefusedVersion } from './reconciled.ts';
