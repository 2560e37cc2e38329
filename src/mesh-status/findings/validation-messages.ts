/** Findings of analysis in the form in which Istio writes them to the status of resources (IstioStatus). */
import type { Finding } from '../../analysis/index.ts';

/** An entry of `status.validationMessages` (analysis/v1alpha1 AnalysisMessageBase of Istio, and the message). */
export interface ValidationMessage {
  readonly type: { readonly name: string; readonly code: string };
  readonly level: 'ERROR' | 'WARNING' | 'INFO';
  readonly documentationUrl: string;
  readonly message: string;
}

const LEVELS = { Error: 'ERROR', Warning: 'WARNING', Info: 'INFO' } as const;

export function validationMessage({ code, name, level, message, documentation }: Finding): ValidationMessage {
  return { type: { name, code }, level: LEVELS[level], documentationUrl: documentation, message };
}

/**
 * Whether a finding may be written to the status of its resource, which everybody reads who reads the resource: not if
 * it tells something about other namespaces. Documents of the root namespace are for those who see the whole mesh.
 */
export function isForReaders({ resource, reveals = [] }: Finding, rootNamespace: string): boolean {
  return resource.namespace === rootNamespace || reveals.every((namespace) => namespace === resource.namespace);
}
