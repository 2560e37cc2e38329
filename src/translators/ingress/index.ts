/** Ingress of Kubernetes: to a Gateway and virtual services. */
export type { IngressSettings } from './classes.ts';
export type { IngressAddress, IngressStatus } from './statuses.ts';
export { type IngressOptions, IngressTranslator } from './translator.ts';
