/** The certificates that servers of Gateways name in Secrets of the namespace of their workloads. */
import { X509Certificate } from 'node:crypto';
import { keyPairBytes } from '../../core/tls/tls-secrets.ts';
import { type Resource, resourceKey, type ServerTlsSettings } from '../../resources/index.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

/** Workloads of one Gateway in whose namespaces Secrets are looked up. */
const MAX_WORKLOADS = 100;

export function* gatewayCredentials(mesh: AnalyzedMesh): Findings {
  if (!mesh.readsSecrets) return;
  for (const document of mesh.documents('Gateway')) {
    const { servers = [], selector = {} } = document.content;
    if (!servers.some(({ tls }) => tls !== undefined && namesOf(tls).length > 0)) continue;
    const names = new Set(servers.flatMap(({ tls }) => (tls === undefined ? [] : namesOf(tls))));
    // Without a workload, nobody reads a Secret, which is another finding.
    const workloads = mesh.workloads.selected(mesh.gatewayScope(document), selector).take(MAX_WORKLOADS);
    for (const namespace of new Set(workloads.map((workload) => workload.namespace))) {
      for (const name of names) {
        yield undefined;
        yield* credential(mesh, document, namespace, name);
      }
    }
  }
}

function* credential(mesh: AnalyzedMesh, document: Resource<'Gateway'>, namespace: string, written: string): Findings {
  const name = written.replace(/^kubernetes:\/\//, '').replace(`${namespace}/`, '');
  const key = resourceKey('Secret', namespace, name);
  const secret = mesh.snapshot.resources('Secret').get(key);
  const refused = yield* mesh.once('refused documents', () => refusedKeys(mesh));
  const where = `Secret ${namespace}/${name}`;
  if (secret === undefined && !refused.has(key)) {
    const message = `credentialName ${written}: ${where} does not exist; it belongs in the namespace of the workload`;
    yield mesh.finding('IST0101', document, message, [namespace]);
    return;
  }
  const why = secret === undefined ? 'is refused' : unusable(secret, mesh.now);
  if (why !== undefined)
    yield mesh.finding('IST0161', document, `credentialName ${written}: ${where} ${why}`, [namespace]);
}

function* refusedKeys({ problems }: AnalyzedMesh): Generator<undefined, ReadonlySet<string | undefined>> {
  const keys = new Set<string | undefined>();
  for (const { key } of problems) {
    yield undefined;
    keys.add(key);
  }
  return keys;
}

function namesOf({ credentialName, credentialNames = [] }: ServerTlsSettings): readonly string[] {
  return credentialName ? [credentialName, ...credentialNames] : credentialNames;
}

function unusable({ content }: Resource<'Secret'>, now: number): string | undefined {
  const pair = keyPairBytes(content);
  if (pair === undefined) return 'has no certificate with its private key';
  try {
    const { validFromDate, validToDate } = new X509Certificate(pair.chain);
    if (validToDate.getTime() < now) return `has a certificate that expired at ${validToDate.toISOString()}`;
    return validFromDate.getTime() > now ? 'has a certificate that is not valid yet' : undefined;
  } catch {
    return 'has no readable certificate';
  }
}
