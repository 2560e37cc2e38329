/**
 * Reads the messages of Envoy's extensions from a set of file descriptors (`protoc --descriptor_set_out`), for
 * reflection: those of `envoy.extensions` and `envoy.config`, with everything that they can contain.
 */
import protobuf from 'protobufjs';
import * as descriptor from 'protobufjs/ext/descriptor/index.js';
import { pruneTree, reachableTypes } from './tree.ts';

/** Packages of the extensions and of the messages that they share with the core. */
const EXTENSIONS = /^\.envoy\.(?:extensions|config)\..*\.v3(?:alpha)?\./;
/** The extension of `google.protobuf.FieldOptions` by which Envoy marks secrets (`udpa/annotations/sensitive.proto`). */
const SENSITIVE = { name: 'udpaSensitive', option: 'udpa_sensitive', number: 76_569_463 };

/** What importing the module adds at run time; its declarations lack these. */
const { FieldOptions, FileDescriptorSet } = descriptor.default as unknown as Readonly<
  Record<'FieldOptions' | 'FileDescriptorSet', protobuf.Type>
>;
const Root = protobuf.Root as unknown as { readonly fromDescriptor: (set: object) => protobuf.Root };

/** The pruned tree of the extensions as a protobufjs JSON descriptor. */
export function extensionTree(descriptorSet: Uint8Array): protobuf.INamespace {
  if (FieldOptions.fields[SENSITIVE.name] === undefined) {
    FieldOptions.add(new protobuf.Field(SENSITIVE.name, SENSITIVE.number, 'bool'));
  }
  const root = Root.fromDescriptor(FileDescriptorSet.decode(descriptorSet));
  root.resolveAll();
  const messages = messagesIn(root);
  for (const field of messages.flatMap(({ fieldsArray }) => fieldsArray)) {
    if (field.options?.[SENSITIVE.option] === true) field.setOption('(udpa.annotations.sensitive)', true);
  }
  const names = messages.map(({ fullName }) => fullName).filter((name) => EXTENSIONS.test(name));
  return pruneTree(reachableTypes(root, names));
}

function messagesIn(namespace: protobuf.NamespaceBase): protobuf.Type[] {
  return namespace.nestedArray.flatMap((each) => [
    ...(each instanceof protobuf.Type ? [each] : []),
    ...(each instanceof protobuf.Namespace ? messagesIn(each) : []),
  ]);
}
