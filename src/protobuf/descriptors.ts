/**
 * Reflection over the compiled messages. It is loaded on first use, because only debug pages, EnvoyFilter patches and
 * tests read or print protobuf JSON; a proxy's configuration is encoded by the static code.
 */
import protobuf from 'protobufjs';
import { readExtensions } from '../../proto/gen/extensions.js';
import { readDescriptor } from '../../proto/gen/root.js';

let root: protobuf.Root | undefined;
let isComplete = false;

/**
 * The message of a full name such as `envoy.config.cluster.v3.Cluster`, or undefined when it is not known. The first
 * call reads the descriptors of the messages that the static code has. All others of Envoy's API take 0.1 s and 17 MB
 * more, so that they are read only for a message that is not among these.
 */
export function findMessage(fullName: string): protobuf.Type | undefined {
  root ??= protobuf.Root.fromJSON(readDescriptor());
  const found = messageIn(root, fullName);
  return found ?? (fullName.startsWith('envoy.') ? messageIn(allDescriptors(), fullName) : undefined);
}

/** The messages that the static code has, and all others of Envoy's API, which EnvoyFilters may use. */
export function allDescriptors(): protobuf.Root {
  root ??= protobuf.Root.fromJSON(readDescriptor());
  if (isComplete) return root;
  isComplete = true;
  addNested(root, readExtensions());
  root.resolveAll();
  return root;
}

/**
 * `lookup` of protobufjs caches every name, including unknown ones, which authors of documents could use to exhaust
 * memory.
 */
function messageIn(within: protobuf.Root, fullName: string): protobuf.Type | undefined {
  let found: protobuf.ReflectionObject | undefined = within;
  for (const step of fullName.split('.'))
    found = found instanceof protobuf.Namespace ? found.nested?.[step] : undefined;
  return found instanceof protobuf.Type ? found : undefined;
}

/**
 * Adds missing members to a namespace or message. `addJSON` can replace a namespace by a message, but throws if a
 * message exists already and some of its nested messages do not.
 */
function addNested(parent: protobuf.NamespaceBase, { nested = {} }: protobuf.INamespace): void {
  for (const [name, added] of Object.entries(nested)) {
    const known = parent.nested?.[name];
    const isNew = !(known instanceof protobuf.Namespace) || (!(known instanceof protobuf.Type) && 'fields' in added);
    if (isNew) parent.addJSON({ [name]: added });
    else addNested(known, added as protobuf.INamespace);
  }
}

/** A field's name in its .proto file, which is how Envoy prints it. */
export function protoNameOf(field: protobuf.Field): string {
  return field.protoName ?? field.name;
}

/** A field's name in proto3 JSON; in `consecutive_5xx_errors`, the generated name keeps the first underscore. */
export function jsonNameOf(field: protobuf.Field): string {
  return protoNameOf(field).replace(/_(.)/g, (_, next: string) => next.toUpperCase());
}

const fieldsByAnyName = new WeakMap<protobuf.Type, ReadonlyMap<string, protobuf.Field>>();

/** A field by its proto name, its generated name, or its canonical JSON name. */
export function findField(type: protobuf.Type, name: string): protobuf.Field | undefined {
  let fields = fieldsByAnyName.get(type);
  if (fields === undefined) {
    fields = new Map(
      type.fieldsArray.flatMap((field) =>
        [field.name, protoNameOf(field), jsonNameOf(field)].map((alias) => [alias, field] as const),
      ),
    );
    fieldsByAnyName.set(type, fields);
  }
  return fields.get(name);
}

/** Messages of `google.protobuf` whose JSON form is not an object of their fields. */
export type SpecialForm = 'any' | 'duration' | 'timestamp' | 'wrapper' | 'struct' | 'value' | 'list';

const SPECIAL_FORMS: Readonly<Record<string, SpecialForm>> = {
  '.google.protobuf.Any': 'any',
  '.google.protobuf.Duration': 'duration',
  '.google.protobuf.Timestamp': 'timestamp',
  '.google.protobuf.Struct': 'struct',
  '.google.protobuf.Value': 'value',
  '.google.protobuf.ListValue': 'list',
  '.google.protobuf.BoolValue': 'wrapper',
  '.google.protobuf.BytesValue': 'wrapper',
  '.google.protobuf.DoubleValue': 'wrapper',
  '.google.protobuf.FloatValue': 'wrapper',
  '.google.protobuf.Int32Value': 'wrapper',
  '.google.protobuf.Int64Value': 'wrapper',
  '.google.protobuf.StringValue': 'wrapper',
  '.google.protobuf.UInt32Value': 'wrapper',
  '.google.protobuf.UInt64Value': 'wrapper',
};

/** The special JSON form of a message, or undefined when it prints as an object of its fields. */
export function specialForm(type: protobuf.Type): SpecialForm | undefined {
  return SPECIAL_FORMS[type.fullName];
}

/** Protobuf implementations refuse deeper messages; the limit prevents hostile input from exhausting the stack. */
export const MAX_DEPTH = 100;
