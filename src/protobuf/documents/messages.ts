/** The descriptors of the documents' messages. */
import protobuf from 'protobufjs';
import { readDocuments } from '../../../proto/gen/documents.js';

let root: protobuf.Root | undefined;

/** The message of a full name such as `istio.networking.v1alpha3.Gateway`; undefined for one that is no document. */
export function documentMessage(fullName: string): protobuf.Type | undefined {
  if (root === undefined) {
    root = protobuf.Root.fromJSON(readDocuments());
    root.resolveAll();
  }
  let found: protobuf.ReflectionObject | undefined = root;
  for (const step of fullName.split('.')) {
    if (!(found instanceof protobuf.Namespace) || found.nested === undefined) return undefined;
    found = Object.hasOwn(found.nested, step) ? found.nested[step] : undefined;
  }
  return found instanceof protobuf.Type ? found : undefined;
}
