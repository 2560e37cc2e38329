/** Streams of workloads that register themselves. For tests. */
import { meshOf, resource } from '../../../model/testing/build.ts';
import type { AnyResource } from '../../../resources/index.ts';
import { parseNode } from '../../../xds/request/node.ts';
import { encodeNode, type StructValue } from '../../../xds/testing/content.ts';
import type { RegisteringStream } from '../entries.ts';

export const TEMPLATE = { serviceAccount: 'web', ports: { http: 8080 }, labels: { tier: 'front' }, locality: 'eu/a' };

/** WorkloadGroup `shop/web`. */
export function webGroup(spec: Record<string, unknown> = {}): AnyResource {
  return resource('WorkloadGroup', 'shop/web', { metadata: { labels: { app: 'web' } }, template: TEMPLATE, ...spec });
}

/** The snapshot of a mesh with that group. */
export const webMesh = (...more: readonly AnyResource[]) => meshOf([webGroup(), ...more]);

/** A stream of `shop/web` whose identity was verified. */
export function webStream(address = '10.0.0.7', metadata: StructValue = {}): RegisteringStream {
  const id = `sidecar~${address}~vm.shop~shop.svc.cluster.local`;
  const node = parseNode(encodeNode(id, { NAMESPACE: 'shop', AUTO_REGISTER_GROUP: 'web', ...metadata }));
  const identity = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' };
  const workloadGroup = node.workloadGroup ?? '';
  return {
    node: { ...node, identity, serviceAccount: 'web', workloadGroup },
    connectedAt: Date.now(),
    problem: undefined,
  };
}
