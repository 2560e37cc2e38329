/** Reads a set of file descriptors (`protoc --descriptor_set_out`). */
import protobuf from 'protobufjs';
import * as descriptor from 'protobufjs/ext/descriptor/index.js';

/** The extension of `google.protobuf.FieldOptions` by which Envoy marks secrets (`udpa/annotations/sensitive.proto`). */
const SENSITIVE = { name: 'udpaSensitive', option: 'udpa_sensitive', number: 76_569_463 };

/** What importing the module adds at run time; its declarations lack these. */
const { FieldOptions, FileDescriptorSet } = descriptor.default as unknown as Readonly<
  Record<'FieldOptions' | 'FileDescriptorSet', protobuf.Type>
>;
const Root = protobuf.Root as unknown as {
  readonly fromDescriptor: (set: object, options: { readonly keepCase: boolean }) => protobuf.Root;
};

/** The messages of the set. Fields and oneofs have the names of the .proto files. */
export function readDescriptors(set: Uint8Array): protobuf.Root {
  if (FieldOptions.fields[SENSITIVE.name] === undefined) {
    FieldOptions.add(new protobuf.Field(SENSITIVE.name, SENSITIVE.number, 'bool'));
  }
  const root = Root.fromDescriptor(FileDescriptorSet.decode(set), { keepCase: true });
  root.resolveAll();
  for (const { fieldsArray } of messagesIn(root)) {
    for (const field of fieldsArray) {
      // As the parser of .proto files names it.
      if (field.options?.[SENSITIVE.option] === true) field.setOption('(udpa.annotations.sensitive)', true);
    }
  }
  return root;
}

/** All messages below a namespace. */
export function messagesIn(namespace: protobuf.NamespaceBase): protobuf.Type[] {
  return namespace.nestedArray.flatMap((each) => [
    ...(each instanceof protobuf.Type ? [each] : []),
    ...(each instanceof protobuf.Namespace ? messagesIn(each) : []),
  ]);
}
