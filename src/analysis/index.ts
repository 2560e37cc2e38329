/**
 * Analysis: finds what is probably wrong in the configuration of a mesh, under the codes and names of Istio's
 * analyzers. Pure: a snapshot and its documents give findings.
 */
export { type Analysis, analyze, MAX_FINDINGS, MAX_OF_NAMESPACE } from './analyze.ts';
export { type DocumentSet, inputOf } from './documents.ts';
export { type AnalysisInput, REFERENCE } from './mesh/mesh.ts';
export { MESSAGES, type MessageCode, NOT_REPORTED } from './messages/index.ts';
export { type ShownFinding, shownFinding } from './shown.ts';
export {
  type AnnotationRule,
  type Finding,
  LEVELS,
  type Level,
  type Manifest,
  type Message,
  type Workload,
} from './types.ts';
