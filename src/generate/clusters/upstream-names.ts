/**
 * Which name a cluster that originates TLS asks for (SNI) and which names it accepts in the server's certificate. A
 * certificate that some authority vouches for proves nothing until its name is compared: with the system's authorities,
 * anybody has one.
 *
 *   names that hold: subjectAltNames of the rule, else those of the ServiceEntry, else `sni`, else the host
 */
import type { Service } from '../../model/types.ts';
import type { ClientTlsSettings } from '../../resources/schemas.ts';
import { exactName, type SanMatcher } from '../common/index.ts';

/** What the cluster sends to the server. */
export type Traffic =
  /** Requests alone: each names its host. */
  | 'requests'
  /** Bytes alone, or requests and bytes. */
  | 'bytes'
  | 'both';

export interface ServerNames {
  /** Fixed server name; undefined: none, or that of each request. */
  readonly sni: string | undefined;
  /** The server name is the host of the request. */
  readonly sniOfRequest: boolean;
  /** The certificate must be for the host of the request. */
  readonly verifiesRequestHost: boolean;
  /** The certificate must have one of these names, if there are any. */
  readonly matchers: readonly SanMatcher[];
}

/** @param verified whether authorities are asked: Envoy rejects name checks otherwise */
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
  // Whatever the request says: it must be one of the names that the service stands for.
  return hostname.startsWith('*.') ? [nameBelow(hostname.slice(1))] : [];
}

/** A DNS name with this end. A certificate's own wildcard (`*.example.com`) ends so too. */
function nameBelow(suffix: string): SanMatcher {
  return { ...exactName(suffix.slice(1)), matcher: { suffix, ignoreCase: true } };
}
