/**
 * The secrets under the names that Envoy requests: the workload's `default` and `ROOTCA`, and others; encoded once per
 * change.
 */
import { createHash } from 'node:crypto';
import { CONTROL_PLANE_ROOTS } from '../../core/proxy.ts';
import { envoy } from '../../protobuf/agent/index.ts';
import type { WorkloadSecrets } from '../types.ts';
import { spiffeIdOf } from './certificates.ts';
import type { SecretResource, SecretTable } from './sds-protocol.ts';

const { Secret, SPIFFECertValidatorConfig } = envoy.extensions.transport_sockets.tls.v3;

const CERTIFICATE = 'default';
const ROOTS = 'ROOTCA';
const VALIDATOR = 'envoy.tls.cert_validator.spiffe';
const VALIDATOR_TYPE = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig';

/**
 * @param more secrets in addition to the workload's own
 */
export function secretTable(secrets: WorkloadSecrets, more: Iterable<SecretResource> = []): SecretTable {
  const { certificate, roots, federated } = secrets;
  const resources = [
    certificateSecret(CERTIFICATE, certificate),
    federated === undefined ? authoritiesSecret(ROOTS, roots) : domainsSecret(ROOTS, secrets, federated),
    authoritiesSecret(CONTROL_PLANE_ROOTS, roots),
    ...more,
  ];
  return new Map(resources.map((each) => [each.name, each]));
}

/** PEM, or the answer of an OCSP responder. */
type Content = string | Uint8Array;

/** A Secret with a key and its chain. */
export function certificateSecret(
  name: string,
  { chain, key, staple }: { readonly chain: Content; readonly key: Content; readonly staple?: Content | undefined },
): SecretResource {
  const tlsCertificate = { certificateChain: inline(chain), privateKey: inline(key) };
  const stapled = staple === undefined ? {} : { ocspStaple: inline(staple) };
  return secretResource({ name, tlsCertificate: { ...tlsCertificate, ...stapled } });
}

/** A Secret with trusted certificates, and a list of revoked ones. */
export function authoritiesSecret(name: string, roots: Content, crl?: Content): SecretResource {
  const revoked = crl === undefined ? {} : { crl: inline(crl) };
  return secretResource({ name, validationContext: { trustedCa: inline(roots), ...revoked } });
}

/**
 * A Secret with the roots of several trust domains. Envoy's validator of SPIFFE IDs uses for each certificate only the
 * roots of its domain, so that no domain can certify workloads of another one.
 */
function domainsSecret(name: string, secrets: WorkloadSecrets, federated: ReadonlyMap<string, string>): SecretResource {
  const id = spiffeIdOf(secrets);
  const own = id === undefined ? undefined : /^spiffe:\/\/([^/]+)/.exec(id)?.[1];
  const domains = new Map([...federated, ...(own === undefined ? [] : [[own, secrets.roots] as const])]);
  const trustDomains = [...domains].map(([domain, pem]) => ({ name: domain, trustBundle: inline(pem) }));
  const value = SPIFFECertValidatorConfig.encode({ trustDomains }).finish();
  const customValidatorConfig = { name: VALIDATOR, typedConfig: { typeUrl: VALIDATOR_TYPE, value } };
  return secretResource({ name, validationContext: { customValidatorConfig } });
}

const inline = (content: Content) => ({ inlineBytes: typeof content === 'string' ? Buffer.from(content) : content });

/**
 * The version is a hash of the content, so that a proxy that reconnects, even to a restarted agent, is not sent what it
 * already has.
 */
function secretResource(secret: Parameters<typeof Secret.encode>[0] & { readonly name: string }): SecretResource {
  const bytes = Secret.encode(secret).finish();
  return { name: secret.name, version: createHash('sha256').update(bytes).digest('hex').slice(0, 32), bytes };
}
