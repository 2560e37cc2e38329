/** Injection: adds the sidecar to Pods. Pure: the same Pod and settings have the same result. */
export { ANNOTATIONS, type AnnotationSpec, readAnnotations } from './annotations/annotations.ts';
export { ANNOTATIONS_WITHOUT_EFFECT } from './annotations/ineffective-names.ts';
export { createInjector } from './inject.ts';
export { type PodRecord, recordOf } from './pod-shape.ts';
