/** The services whose names are resolved: a directory of Kubernetes Services. */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const NAMESPACES = 50;

/** Services and agents are spread over namespaces. */
export function namespaceOf(index: number): string {
  return `namespace-${index % NAMESPACES}`;
}

/** The name of a service. It has an IPv4 address and no other. */
export function nameOf(index: number): string {
  return `service-${index}.${namespaceOf(index)}.svc.cluster.local`;
}

function service(index: number, version: number): string {
  const metadata = { name: `service-${index}`, namespace: namespaceOf(index) };
  const clusterIP = `10.${version % 200}.${index >> 8}.${index & 255}`;
  const spec = { clusterIP, ports: [{ name: 'http', port: 80 }] };
  // JSON is YAML.
  return JSON.stringify({ apiVersion: 'v1', kind: 'Service', metadata, spec });
}

export async function writeServices(folder: string, names: number): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (let namespace = 0; namespace < Math.min(NAMESPACES, names); namespace++) {
    const documents: string[] = [];
    for (let index = namespace; index < names; index += NAMESPACES) if (index > 0) documents.push(service(index, 0));
    await writeFile(join(folder, `namespace-${namespace}.yaml`), documents.join('\n---\n'));
  }
  await changeService(folder, 0);
}

/** Gives the first service another address: the control plane then sends a new table. */
export async function changeService(folder: string, version: number): Promise<void> {
  const draft = `${folder}.draft`;
  await writeFile(draft, service(0, version));
  await rename(draft, join(folder, 'first.yaml'));
}
