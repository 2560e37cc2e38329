/**
 * The secrets under the names that Envoy requests: the workload's `default` and `ROOTCA`, and others; encoded once per
 * change.
 */
import { createHash } from 'node:crypto';
import type { WorkloadSecrets } from '../types.ts';
import { authoritiesSecret, certificateSecret, type SecretResource } from './messages.ts';
import type { SecretTable } from './sds-protocol.ts';

const CERTIFICATE = 'default';
const ROOTS = 'ROOTCA';

/** @param more other secrets than the workload's own */
export function secretTable({ certificate, roots }: WorkloadSecrets, more: Iterable<SecretResource> = []): SecretTable {
  const resources = [
    secretResource(CERTIFICATE, certificateSecret(CERTIFICATE, certificate)),
    secretResource(ROOTS, authoritiesSecret(ROOTS, roots)),
    ...more,
  ];
  return new Map(resources.map((each) => [each.name, each]));
}

/**
 * The version is a hash of the content, so that a proxy that reconnects, even to a restarted agent, is not sent what it
 * already has.
 */
export function secretResource(name: string, bytes: Uint8Array): SecretResource {
  return { name, version: createHash('sha256').update(bytes).digest('hex').slice(0, 32), bytes };
}
