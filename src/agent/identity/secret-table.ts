/**
 * The secrets as Envoy asks for them: the workload's `default` and `ROOTCA`, and others by their names; encoded once
 * per change.
 */
import { createHash } from 'node:crypto';
import type { WorkloadSecrets } from '../types.ts';
import { authoritiesSecret, certificateSecret, type SecretResource } from './messages.ts';
import type { SecretTable } from './sds-protocol.ts';

const CERTIFICATE = 'default';
const ROOTS = 'ROOTCA';

/** @param more secrets besides the workload's own */
export function secretTable({ certificate, roots }: WorkloadSecrets, more: Iterable<SecretResource> = []): SecretTable {
  const resources = [
    secretResource(CERTIFICATE, certificateSecret(CERTIFICATE, certificate)),
    secretResource(ROOTS, authoritiesSecret(ROOTS, roots)),
    ...more,
  ];
  return new Map(resources.map((each) => [each.name, each]));
}

/**
 * The version is of the content, so that a proxy that reconnects, even to an agent started anew, is not sent what it
 * has.
 */
export function secretResource(name: string, bytes: Uint8Array): SecretResource {
  return { name, version: createHash('sha256').update(bytes).digest('hex').slice(0, 32), bytes };
}
