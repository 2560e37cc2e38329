/** The addresses in Endpoints and EndpointSlices. */
import type { Resource } from '../../resources/index.ts';

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
