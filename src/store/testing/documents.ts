/**
 * Documents for tests of several sources: of a kind that is of a cluster, of one that is of the mesh, and of a policy.
 */
import { parseResource } from '../../resources/index.ts';
import type { AnyResource, ResourceProblem } from '../../resources/kinds/types.ts';

export const TEST_KINDS = ['Service', 'VirtualService', 'AuthorizationPolicy'] as const;
export type TestKind = (typeof TEST_KINDS)[number];

function documentOf(kind: TestKind, name: string, version: number): object {
  const metadata = { name, namespace: 'ns' };
  switch (kind) {
    case 'Service':
      return { apiVersion: 'v1', kind, metadata, spec: { ports: [{ port: version }] } };
    case 'VirtualService': {
      const route = [{ destination: { host: 'h', port: { number: version } } }];
      return { apiVersion: 'networking.mesh.io/v1alpha3', kind, metadata, spec: { hosts: ['h'], http: [{ route }] } };
    }
    case 'AuthorizationPolicy': {
      const ports = [String(version)];
      return {
        apiVersion: 'security.mesh.io/v1beta1',
        kind,
        metadata,
        spec: { rules: [{ to: [{ operation: { ports } }] }] },
      };
    }
  }
}

/** @param version 1 to 65535; others are refused */
function parsed(kind: TestKind, name: string, version: number, source: string) {
  return parseResource(documentOf(kind, name, version), { source }, () => undefined);
}

export function resource(kind: TestKind, name: string, version: number, source = 'test'): AnyResource {
  const result = parsed(kind, name, version, source);
  if ('resource' in result) return result.resource;
  throw new Error(`refused: ${JSON.stringify(result)}`);
}

/** Why a document of this name is refused. */
export function problem(kind: TestKind, name: string, source = 'test'): ResourceProblem {
  const result = parsed(kind, name, 0, source);
  if ('problem' in result) return result.problem;
  throw new Error(`not refused: ${JSON.stringify(result)}`);
}
