/** Documents of the policy component. */
import type { Document } from './config.ts';

export function policyDocument(kind: string, name: string, spec: Document, namespace = 'shop'): Document {
  return { apiVersion: 'config.mesh.io/v1alpha2', kind, metadata: { name, namespace }, spec };
}
