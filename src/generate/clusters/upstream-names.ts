/**
 * Which name a cluster that originates TLS requests (SNI) and which names it accepts in the server's certificate. A
 * verified certificate proves nothing until its names are checked: anyone can get a certificate from a public
 * authority.
 *
 * Accepted names: subjectAltNames of the rule, else those of the ServiceEntry, else `sni`, else the host.
 */
import type { Service } from '../../model/index.ts';
import type { ClientTlsSettings } from '../../resources/index.ts';
import { exactName, type SanMatcher } from '../common/index.ts';

export type Traffic =
  /** HTTP only: each request names its host. */
  | 'requests'
  /** TCP, or HTTP and TCP. */
  | 'bytes'
  | 'both';

export interface ServerNames {
  /** Fixed server name; undefined: none, or that of each request. */
  readonly sni: string | undefined;
  readonly sniOfRequest: boolean;
  readonly verifiesRequestHost: boolean;
  /** The certificate must have one of these names, unless the list is empty. */
  readonly matchers: readonly SanMatcher[];
}

/** @param verified whether the certificate is verified: Envoy rejects name checks otherwise */
export function serverNames(
  { sni, subjectAltNames }: ClientTlsSettings,
  { hostname, subjectAltNames: serviceNames }: Pick<Service, 'hostname' | 'subjectAltNames'>,
  traffic: Traffic,
  verified: boolean,
): ServerNames {
  const wildcard = hostname.startsWith('*');
  const written = sni === undefined || sni === '' ? undefined : sni;
  const sniOfRequest = written === undefined && (traffic === 'requests' || (traffic === 'both' && wildcard));
  const fixed = written ?? (sniOfRequest || wildcard ? undefined : hostname);
  const expected = subjectAltNames !== undefined && subjectAltNames.length > 0 ? subjectAltNames : serviceNames;
  const open = expected.length === 0;
  return {
    sni: fixed,
    sniOfRequest,
    verifiesRequestHost: verified && open && sniOfRequest,
    matchers: verified ? [...expected.map(exactName), ...(open ? defaultNames(fixed, hostname) : [])] : [],
  };
}

function defaultNames(sni: string | undefined, hostname: string): SanMatcher[] {
  if (sni !== undefined) return [exactName(sni)];
  // The host of each request must be one of the service's names.
  return hostname.startsWith('*.') ? [nameBelow(hostname.slice(1))] : [];
}

/** A DNS name with this suffix. A wildcard name in a certificate (`*.example.com`) has such a suffix too. */
function nameBelow(suffix: string): SanMatcher {
  return { ...exactName(suffix.slice(1)), matcher: { suffix, ignoreCase: true } };
}
