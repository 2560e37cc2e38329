/** `/debug/why`: what a proxy's resource was made of, and which proxies a document was read for. */
import type { ConnectionStatus } from '../push/types.ts';
import type { ResourceKey } from '../resources/index.ts';
import type { Viewed } from './viewed.ts';

/** Per proxy: the units that the resource is of, with what was read for them. Undefined when none of them has it. */
export function whyResource(mesh: Viewed, connections: readonly ConnectionStatus[], name: string): unknown {
  const found = connections.flatMap((connection) => {
    const units = mesh.reasonsFor(connection, name).map(({ documents, ...reason }) => {
      return { ...reason, documents: documents.map((key) => document(mesh, key)) };
    });
    return units.length === 0 ? [] : [{ proxy: connection.node.workload, units }];
  });
  return found.length === 0 ? undefined : found;
}

function document(mesh: Viewed, key: ResourceKey): object {
  const [inForce] = mesh.documents(key);
  return { key, ...(inForce !== undefined && { origin: inForce.resource.origin }) };
}

/** The proxies that a document was read for. Undefined when it is not the viewer's. */
export function whyDocument(mesh: Viewed, key: ResourceKey): unknown {
  const readers = mesh.readersOf(key);
  return readers && [...readers].map(([{ node }, units]) => ({ proxy: node.workload, units }));
}
