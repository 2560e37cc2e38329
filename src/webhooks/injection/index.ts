/** Injection: adds the sidecar to Pods. Pure: the same Pod and settings give the same answer. */
export { createInjector } from './inject.ts';
export { isRecord, type PodRecord, recordOf } from './pod-shape.ts';
