/** Translates Kubernetes Ingresses to a Gateway and VirtualServices. */
export type { IngressSettings } from './classes.ts';
export type { IngressAddress, IngressStatus } from './statuses.ts';
export { type IngressOptions, IngressTranslator } from './translator.ts';
