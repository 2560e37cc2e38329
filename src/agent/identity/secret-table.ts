/** The workload's secrets as Envoy asks for them: `default` and `ROOTCA`, encoded once per change. */
import { createHash } from 'node:crypto';
import type { WorkloadSecrets } from '../types.ts';
import { certificateSecret, rootsSecret, type SecretResource } from './messages.ts';
import type { SecretTable } from './sds-protocol.ts';

const CERTIFICATE = 'default';
const ROOTS = 'ROOTCA';

export function secretTable({ certificate, roots }: WorkloadSecrets): SecretTable {
  const resources = [
    resource(CERTIFICATE, certificateSecret(CERTIFICATE, certificate)),
    resource(ROOTS, rootsSecret(ROOTS, roots)),
  ];
  return new Map(resources.map((each) => [each.name, each]));
}

/** The version is of the content, so that a proxy that reconnects, even to an agent started anew, is not sent what it has. */
function resource(name: string, bytes: Uint8Array): SecretResource {
  return { name, version: createHash('sha256').update(bytes).digest('hex').slice(0, 32), bytes };
}
