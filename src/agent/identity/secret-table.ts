/**
 * The secrets under the names that Envoy requests: the workload's `default` and `ROOTCA`, and others; encoded once per
 * change.
 */
import { createHash } from 'node:crypto';
import { envoy } from '../../protobuf/agent/index.ts';
import type { WorkloadCertificate, WorkloadSecrets } from '../types.ts';
import type { SecretResource, SecretTable } from './sds-protocol.ts';

const { Secret } = envoy.extensions.transport_sockets.tls.v3;

const CERTIFICATE = 'default';
const ROOTS = 'ROOTCA';

/** @param more other secrets than the workload's own */
export function secretTable({ certificate, roots }: WorkloadSecrets, more: Iterable<SecretResource> = []): SecretTable {
  const resources = [certificateSecret(CERTIFICATE, certificate), authoritiesSecret(ROOTS, roots), ...more];
  return new Map(resources.map((each) => [each.name, each]));
}

/** A Secret with a key and its chain. */
export function certificateSecret(
  name: string,
  { chain, key }: Pick<WorkloadCertificate, 'chain' | 'key'>,
): SecretResource {
  return secretResource({ name, tlsCertificate: { certificateChain: inline(chain), privateKey: inline(key) } });
}

/** A Secret with trusted certificates, and a list of revoked ones. */
export function authoritiesSecret(name: string, roots: string, crl?: string): SecretResource {
  const revoked = crl === undefined ? {} : { crl: inline(crl) };
  return secretResource({ name, validationContext: { trustedCa: inline(roots), ...revoked } });
}

const inline = (pem: string) => ({ inlineBytes: Buffer.from(pem) });

/**
 * The version is a hash of the content, so that a proxy that reconnects, even to a restarted agent, is not sent what it
 * already has.
 */
function secretResource(secret: Parameters<typeof Secret.encode>[0] & { readonly name: string }): SecretResource {
  const bytes = Secret.encode(secret).finish();
  return { name: secret.name, version: createHash('sha256').update(bytes).digest('hex').slice(0, 32), bytes };
}
