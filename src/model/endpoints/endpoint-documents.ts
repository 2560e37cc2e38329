/** The addresses in Endpoints and EndpointSlices. */
import type { AnyResource, Resource } from '../../resources/index.ts';

export type EndpointsDocument = Resource<'Endpoints'> | Resource<'EndpointSlice'>;

/** The addresses of a document without a reference to a Pod. May contain duplicates. */
export function bareAddresses(document: EndpointsDocument | undefined): readonly string[] {
  if (document?.kind === 'EndpointSlice') {
    const { addressType, endpoints = [] } = (document as Resource<'EndpointSlice'>).content;
    if (addressType === 'FQDN') return [];
    return endpoints.flatMap(({ addresses, targetRef }) => (targetRef?.kind === 'Pod' ? [] : addresses));
  }
  const { subsets = [] } = (document as Resource<'Endpoints'> | undefined)?.content ?? {};
  return subsets
    .flatMap(({ addresses = [], notReadyAddresses = [] }) => [...addresses, ...notReadyAddresses])
    .flatMap(({ ip, targetRef }) => (targetRef?.kind === 'Pod' ? [] : ip));
}

const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';

/** `namespace/name` of the Service that an EndpointSlice or Endpoints document belongs to; undefined: of none. */
export function serviceOfEndpoints(resource: AnyResource | undefined): string | undefined {
  const { kind, meta } = resource ?? {};
  if (meta === undefined || (kind !== 'EndpointSlice' && kind !== 'Endpoints')) return undefined;
  const name = kind === 'EndpointSlice' ? meta.labels[SERVICE_NAME_LABEL] : meta.name;
  return name === undefined ? undefined : `${meta.namespace}/${name}`;
}
