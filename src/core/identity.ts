/**
 * A workload's identity, as a SPIFFE ID: `spiffe://<trust_domain>/ns/<namespace>/sa/<service_account>`. Source:
 * https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md
 */
import { CtlError } from './errors.ts';

export interface Identity {
  readonly trustDomain: string;
  readonly namespace: string;
  readonly serviceAccount: string;
}

/**
 * gRPC metadata in which an agent sends the authority the trust domain that its operator has set. The authority uses
 * only the key of a certificate request, so a difference between the two settings would otherwise go unnoticed.
 */
export const TRUST_DOMAIN_METADATA = 'mesh-trust-domain';

/** SPIFFE-ID section 2.3: implementations must support 2048 bytes, and need not support more. */
const MAX_URI_BYTES = 2048;

/** SPIFFE-ID section 2.1: lower-case letters, digits, `.`, `-`, `_`; at most 255 bytes. */
const TRUST_DOMAIN = /^[a-z0-9._-]{1,255}$/;

/**
 * Names of namespaces and service accounts: the characters that a path segment of a SPIFFE ID may have (section 2.2),
 * but not `.` or `..`.
 */
const SEGMENT = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,253}$/;

/** Whether `text` is a valid name of a trust domain. */
export function isTrustDomain(text: string): boolean {
  return TRUST_DOMAIN.test(text);
}

/** The identity's URI. Throws CtlError invalid_argument for names that a SPIFFE ID cannot contain. */
export function spiffeUri({ trustDomain, namespace, serviceAccount }: Identity): string {
  if (!TRUST_DOMAIN.test(trustDomain)) throw unfit('trust domain', trustDomain);
  if (!SEGMENT.test(namespace)) throw unfit('namespace', namespace);
  if (!SEGMENT.test(serviceAccount)) throw unfit('service account', serviceAccount);
  return `spiffe://${trustDomain}/ns/${namespace}/sa/${serviceAccount}`;
}

/** The identity that a URI names; undefined for any other URI. Nothing is decoded or normalized. */
export function parseSpiffeUri(uri: string): Identity | undefined {
  if (uri.length > MAX_URI_BYTES) return undefined;
  const [, trustDomain = '', namespace = '', serviceAccount = ''] =
    /^spiffe:\/\/([^/]+)\/ns\/([^/]+)\/sa\/([^/]+)$/.exec(uri) ?? [];
  const fits = TRUST_DOMAIN.test(trustDomain) && SEGMENT.test(namespace) && SEGMENT.test(serviceAccount);
  return fits ? { trustDomain, namespace, serviceAccount } : undefined;
}

function unfit(what: string, value: string): CtlError {
  return new CtlError('invalid_argument', `${JSON.stringify(value.slice(0, 80))} cannot be the ${what} of an identity`);
}
