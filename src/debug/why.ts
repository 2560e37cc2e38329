/** `/debug/why`: what a resource of a proxy was generated from, and which proxies a document affects. */
import type { ConnectionStatus } from '../push/index.ts';
import type { ResourceKey } from '../resources/index.ts';
import type { Viewed } from './viewed.ts';

/** For each proxy: the units of the resource, with the facts that they read. Undefined when no proxy has it. */
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

/** The proxies whose configuration read a document. Undefined when the document is not visible. */
export function whyDocument(mesh: Viewed, key: ResourceKey): unknown {
  const readers = mesh.readersOf(key);
  return readers && [...readers].map(([{ node }, units]) => ({ proxy: node.workload, units }));
}
