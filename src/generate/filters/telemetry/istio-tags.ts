/**
 * Tags of Istio about the proxy of a span. Envoy reads them from its own node metadata, so that they are the same
 * configuration for all proxies; a value that it does not have is no tag.
 */
import type { OwnTracing } from '../../../core/tracing.ts';
import { cel, labelOr, NODE } from './metrics/labels.ts';

const VALUES = {
  'istio.canonical_revision': labelOr('service.istio.io/canonical-revision', 'version'),
  'istio.canonical_service': labelOr('service.istio.io/canonical-name', 'app'),
  'istio.cluster_id': cel(`${NODE}.CLUSTER_ID`),
  'istio.mesh_id': cel(`${NODE}.MESH_ID`),
  'istio.namespace': cel(`${NODE}.NAMESPACE`),
} as const;

export const ISTIO_TAGS: NonNullable<OwnTracing['customTags']> = Object.fromEntries(
  Object.entries(VALUES).map(([name, value]) => [name, { formatter: { value } }]),
);
