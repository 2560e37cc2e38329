/**
 * Reflection over the compiled messages. It is loaded on first use, because only debug pages, EnvoyFilter patches and
 * tests read or print protobuf JSON; a proxy's configuration is encoded by the static code.
 */
import protobuf from 'protobufjs';
import { readExtensions } from '../../proto/gen/extensions.js';
import { readDescriptor } from '../../proto/gen/root.js';

/** Compiled messages, by their descriptors, which are read at the first use. */
class Descriptors {
  readonly #read: () => protobuf.INamespace;
  #root: protobuf.Root | undefined;

  constructor(read: () => protobuf.INamespace) {
    this.#read = read;
  }

  find(fullName: string): protobuf.Type | undefined {
    if (this.#root === undefined) {
      this.#root = protobuf.Root.fromJSON(this.#read());
      this.#root.resolveAll();
    }
    const found = this.#root.lookup(fullName, [protobuf.Type]);
    return found instanceof protobuf.Type && found.fullName === `.${fullName}` ? found : undefined;
  }
}

/** The messages that generation encodes, as the static code has them. */
const GENERATED = new Descriptors(readDescriptor);
/**
 * The messages of Envoy's extensions, which EnvoyFilters may configure. They take 27 MB and 0.2 s, so that they
 * are read only for a message that the other descriptors lack.
 */
const EXTENSIONS = new Descriptors(readExtensions);

/** The message of a full name such as `envoy.config.cluster.v3.Cluster`, or undefined when it is not compiled. */
export function findMessage(fullName: string): protobuf.Type | undefined {
  const generated = GENERATED.find(fullName);
  return generated ?? (fullName.startsWith('envoy.') ? EXTENSIONS.find(fullName) : undefined);
}

/** A field's name in its .proto file, which is how Envoy prints it. */
export function protoNameOf(field: protobuf.Field): string {
  return field.protoName ?? field.name;
}

const fieldsByAnyName = new WeakMap<protobuf.Type, ReadonlyMap<string, protobuf.Field>>();

/** A field by its proto name, its generated name, or its canonical JSON name. */
export function findField(type: protobuf.Type, name: string): protobuf.Field | undefined {
  let fields = fieldsByAnyName.get(type);
  if (fields === undefined) {
    fields = new Map(
      type.fieldsArray.flatMap((field) =>
        [field.name, protoNameOf(field), field.jsonName ?? field.name].map((alias) => [alias, field] as const),
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

/** Protobuf implementations refuse deeper messages; a bound keeps hostile input from exhausting the stack. */
export const MAX_DEPTH = 100;
