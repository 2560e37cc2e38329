/** The hostile tenant: its one service, which nobody else sees, and the beginnings of its documents. */
import { head } from '../world/documents.ts';
import { HOSTILE } from './scenario.ts';

export const HOSTILE_HOST = `web.${HOSTILE}.mesh.bench`;

/** A document of the tenant up to its `spec:`. */
export function hostileHead(kind: string, name: string): string {
  return head('networking.istio.io/v1alpha3', kind, name, HOSTILE);
}

export function lines(count: number, line: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => line(index)).join('');
}

/** The tenant's own service, which nobody else sees. */
export function hostileService(): string {
  return [
    hostileHead('ServiceEntry', 'web'),
    `  hosts:\n    - ${HOSTILE_HOST}\n  exportTo:\n    - "."\n  location: MESH_INTERNAL\n  resolution: STATIC\n`,
    '  ports:\n    - number: 8080\n      name: http\n      protocol: HTTP\n',
    '  endpoints:\n    - address: 10.251.0.1\n      labels:\n        app: web\n',
  ].join('');
}
