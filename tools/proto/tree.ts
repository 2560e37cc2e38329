/**
 * Loads the messages and prunes them to the types that are reachable from the root messages.
 *
 * The Envoy API has some 600 files, and every worker would load a module of all of them. Pruning keeps the messages and
 * enums that a root message can contain, drops options and comments, and writes type names in full, so that they are
 * unambiguous in the pruned tree.
 */
import { join } from 'node:path';
import protobuf from 'protobufjs';
import { readDescriptors } from './descriptors.ts';

/**
 * The messages of a set of descriptors, with those of the project's own .proto files, which may import files of the
 * set. Fields of the set have the names of their .proto files, others are in camel case.
 */
export function loadTree(repository: string, descriptorSet: Uint8Array, files: readonly string[]): protobuf.Root {
  const root = readDescriptors(descriptorSet);
  root.resolvePath = (_origin, target) => {
    return root.files.includes(target) ? null : join(repository, 'proto', target);
  };
  return root.loadSync(files.filter((file) => !root.files.includes(file)));
}

/** The messages and enums that the named messages can contain, with themselves. Throws for an unknown name. */
export function reachableTypes(root: protobuf.Root, names: readonly string[]): Set<protobuf.Type | protobuf.Enum> {
  const found = new Set<protobuf.Type | protobuf.Enum>();
  const waiting: protobuf.Type[] = names.map((name) => root.lookupType(name));
  for (let type = waiting.pop(); type !== undefined; type = waiting.pop()) {
    if (found.has(type)) continue;
    found.add(type);
    for (const field of type.fieldsArray) {
      const target = field.resolve().resolvedType;
      if (target instanceof protobuf.Enum) found.add(target);
      else if (target !== null) waiting.push(target);
    }
  }
  return found;
}

interface PrunedNode {
  nested: Record<string, PrunedNode>;
  self?: protobuf.Type | protobuf.Enum;
}

/** Of a field or a oneof. */
function memberName({ name }: protobuf.ReflectionObject): string {
  return protobuf.util.camelCase(name);
}

function fieldDescriptor(field: protobuf.Field): Record<string, unknown> {
  const descriptor: Record<string, unknown> = { ...field.toJSON() };
  delete descriptor.options;
  delete descriptor.comment;
  if (memberName(field) !== field.name) descriptor.protoName = field.name;
  // In full, because a relative name could mean another type in the pruned tree.
  if (field.resolvedType !== null) descriptor.type = field.resolvedType.fullName;
  const options: Record<string, unknown> = {};
  for (const name of ['proto3_optional', 'packed']) {
    const value = field.options?.[name];
    if (value !== undefined) options[name] = value;
  }
  // Options of fields that Envoy's config dump redacts, and ours as well.
  if (field.options?.['(udpa.annotations.sensitive)'] === true) options.sensitive = true;
  return Object.keys(options).length === 0 ? descriptor : { ...descriptor, options };
}

function describe(node: PrunedNode): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  if (node.self instanceof protobuf.Enum) return { values: node.self.values };
  if (node.self !== undefined) {
    const type = node.self;
    // Sorted by number: the encoded order of fields, and so a resource's bytes, then never depend on declaration order.
    const fields = [...type.fieldsArray].sort((a, b) => a.id - b.id);
    out.edition = 'proto3';
    out.fields = Object.fromEntries(fields.map((field) => [memberName(field), fieldDescriptor(field)]));
    const oneofs = type.oneofsArray.map((oneof) => [
      memberName(oneof),
      { oneof: oneof.oneof.map((name) => protobuf.util.camelCase(name)) },
    ]);
    if (oneofs.length > 0) out.oneofs = Object.fromEntries(oneofs);
  }
  const nested = Object.keys(node.nested).sort();
  if (nested.length > 0) {
    out.nested = Object.fromEntries(nested.map((name) => [name, describe(node.nested[name] as PrunedNode)]));
  }
  return out;
}

/** The pruned tree as a protobufjs JSON descriptor, in a stable order. */
export function pruneTree(types: ReadonlySet<protobuf.Type | protobuf.Enum>): protobuf.INamespace {
  const top: PrunedNode = { nested: {} };
  for (const type of types) {
    let node = top;
    for (const name of type.fullName.split('.').slice(1)) {
      node.nested[name] ??= { nested: {} };
      node = node.nested[name];
    }
    node.self = type;
  }
  return describe(top) as protobuf.INamespace;
}
