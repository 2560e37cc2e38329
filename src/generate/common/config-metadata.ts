/**
 * Which document a cluster or route comes from, in the metadata that tools of Istio read, such as
 * `istioctl x describe`: `filter_metadata.istio.config` is the path of a VirtualService or DestinationRule. The group
 * and version are Istio's, whichever of its names the document has, because these tools know no other.
 */
import { isDnsSubdomain } from '../../core/dns-names.ts';
import type { envoy, google } from '../../protobuf/index.ts';

interface WithMetadata {
  readonly metadata?: envoy.config.core.v3.Metadata.Input | null | undefined;
}

const NONE: WithMetadata = {};

/** Nothing for documents that are derived from others: no object has their names. */
export function configMetadata(
  kind: 'virtual-service' | 'destination-rule',
  namespace: string,
  name: string,
): WithMetadata {
  if (!isDnsSubdomain(name)) return NONE;
  const stringValue = `/apis/networking.istio.io/v1alpha3/namespaces/${namespace}/${kind}/${name}`;
  return { metadata: { filterMetadata: { istio: { fields: { config: { stringValue } } } } } };
}

/** Several parts of a message's metadata as one, by filter and field: Istio's filters read all of theirs from one. */
export function joinedMetadata(...parts: readonly WithMetadata[]): WithMetadata {
  const [only, ...others] = parts.filter(({ metadata }) => metadata != null);
  if (only === undefined) return NONE;
  if (others.length === 0) return { metadata: only.metadata };
  const joined: Record<string, google.protobuf.Struct.Input> = {};
  for (const { metadata } of [only, ...others])
    for (const [filter, struct] of Object.entries(metadata?.filterMetadata ?? {}))
      joined[filter] = { fields: { ...joined[filter]?.fields, ...struct.fields } };
  return { metadata: { filterMetadata: joined } };
}
