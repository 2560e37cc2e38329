/** Descriptors of templates and adapters as their generators write them, from .proto text, for tests. */
import protobuf from 'protobufjs';
import { bytesField, stringField, varintField } from '../config/dynamic/messages.ts';

/** What templates import. */
const LIBRARY = `
syntax = "proto3";
package istio.policy.v1beta1;
message Value {
  oneof value {
    string string_value = 1; int64 int64_value = 2; double double_value = 3; bool bool_value = 4;
    IPAddress ip_address_value = 5; TimeStamp timestamp_value = 6; Duration duration_value = 7;
    EmailAddress email_address_value = 8; DNSName dns_name_value = 9; Uri uri_value = 10;
    StringMap string_map_value = 11;
  }
}
message IPAddress { bytes value = 1; }
message Duration { google.protobuf.Duration value = 1; }
message TimeStamp { google.protobuf.Timestamp value = 1; }
message DNSName { string value = 1; }
message StringMap { map<string, string> value = 1; }
message EmailAddress { string value = 1; }
message Uri { string value = 1; }
`;
const MODEL = `
syntax = "proto3";
package istio.mixer.adapter.model.v1beta1;
message Status { int32 code = 1; string message = 2; }
message CheckResult { Status status = 1; google.protobuf.Duration valid_duration = 2; int32 valid_use_count = 3; }
message ReportResult {}
message QuotaRequest {
  message QuotaParams { int64 amount = 1; bool best_effort = 2; }
  map<string, QuotaParams> quotas = 1;
}
message QuotaResult {
  message Result { google.protobuf.Duration valid_duration = 2; int64 granted_amount = 3; Status status = 4; }
  map<string, Result> quotas = 1;
}
`;

/** All types of a package, with those that it imports. */
export function protoRoot(text: string): protobuf.Root {
  const root = new protobuf.Root();
  for (const name of ['duration', 'timestamp', 'any', 'struct']) {
    root.addJSON(protobuf.common.get(`google/protobuf/${name}.proto`)?.nested ?? {});
  }
  for (const each of [LIBRARY, MODEL, text]) protobuf.parse(each, root, { keepCase: true });
  root.resolveAll();
  return root;
}

/** `FieldDescriptorProto.Type` by name. */
const TYPES: Readonly<Record<string, number>> = {
  ...{ double: 1, float: 2, int64: 3, uint64: 4, int32: 5, fixed64: 6, fixed32: 7, bool: 8, string: 9, bytes: 12 },
  ...{ uint32: 13, sfixed32: 15, sfixed64: 16, sint32: 17, sint64: 18 },
};
const ENUM = 14;
const MESSAGE = 11;
const OPTIONAL = 1n;
const REPEATED = 3n;

/**
 * The FileDescriptorSet of a root in base64, with a file for each package. protobufjs' own has names of types that are
 * relative, which compilers do not write.
 * @param template marks the file of `package_` as a template
 */
export function descriptorOf(
  root: protobuf.Root,
  package_: string,
  template?: { readonly variety: number; readonly name: string },
): string {
  const files: Buffer[] = [];
  const visit = (scope: protobuf.NamespaceBase): void => {
    const { nestedArray } = scope;
    const name = scope.fullName.slice(1);
    const content = nestedArray.flatMap((each) => {
      if (each instanceof protobuf.Type) return [bytesField(4, messageOf(each))];
      if (each instanceof protobuf.Enum) return [bytesField(5, enumOf(each))];
      return each instanceof protobuf.Service ? [bytesField(6, serviceOf(each))] : [];
    });
    const options = [
      varintField(72_295_727, BigInt(template?.variety ?? 0)),
      stringField(72_295_888, template?.name ?? ''),
    ];
    if (content.length > 0) {
      const marked = name === package_ && template !== undefined ? [bytesField(8, Buffer.concat(options))] : [];
      files.push(Buffer.concat([stringField(1, `${name}.proto`), stringField(2, name), ...content, ...marked]));
    }
    for (const each of nestedArray) if (each.constructor === protobuf.Namespace) visit(each as protobuf.Namespace);
  };
  visit(root);
  return Buffer.concat(files.map((file) => bytesField(1, file))).toString('base64');
}

function messageOf(type: protobuf.Type): Buffer {
  const maps = type.fieldsArray.filter((field) => field instanceof protobuf.MapField);
  return Buffer.concat([
    stringField(1, type.name),
    ...type.fieldsArray.map((field) => bytesField(2, fieldOf(type, field))),
    ...maps.map((field) => bytesField(3, entryOf(field))),
    ...type.nestedArray.flatMap((each) => (each instanceof protobuf.Type ? [bytesField(3, messageOf(each))] : [])),
    ...type.nestedArray.flatMap((each) => (each instanceof protobuf.Enum ? [bytesField(4, enumOf(each))] : [])),
  ]);
}

const entryName = ({ name }: protobuf.FieldBase): string => `Entry_${name}`;

function fieldOf(type: protobuf.Type, field: protobuf.Field): Buffer {
  const map = field instanceof protobuf.MapField;
  return Buffer.concat([
    stringField(1, field.name),
    varintField(3, BigInt(field.id)),
    varintField(4, map || field.repeated ? REPEATED : OPTIONAL),
    ...(map
      ? [varintField(5, BigInt(MESSAGE)), stringField(6, `${type.fullName}.${entryName(field)}`)]
      : typeOf(field)),
  ]);
}

function typeOf({ type, resolvedType }: protobuf.FieldBase): Buffer[] {
  if (resolvedType === null) return [varintField(5, BigInt(TYPES[type] ?? 0))];
  const kind = resolvedType instanceof protobuf.Enum ? ENUM : MESSAGE;
  return [varintField(5, BigInt(kind)), stringField(6, resolvedType.fullName)];
}

function entryOf(field: protobuf.MapField): Buffer {
  const key = [stringField(1, 'key'), varintField(3, 1n), varintField(4, OPTIONAL)];
  const value = [stringField(1, 'value'), varintField(3, 2n), varintField(4, OPTIONAL), ...typeOf(field)];
  return Buffer.concat([
    stringField(1, entryName(field)),
    bytesField(2, Buffer.concat([...key, varintField(5, BigInt(TYPES[field.keyType] ?? 0))])),
    bytesField(2, Buffer.concat(value)),
    bytesField(7, varintField(7, 1n)),
  ]);
}

function enumOf({ name, values }: protobuf.Enum): Buffer {
  const all = Object.entries(values).map(([each, number]) =>
    bytesField(2, Buffer.concat([stringField(1, each), varintField(2, BigInt(number))])),
  );
  return Buffer.concat([stringField(1, name), ...all]);
}

function serviceOf({ name, methodsArray }: protobuf.Service): Buffer {
  const methods = methodsArray.map((method) => {
    const { resolvedRequestType: input, resolvedResponseType: output } = method.resolve() as protobuf.Method;
    const types = [stringField(2, input?.fullName ?? ''), stringField(3, output?.fullName ?? '')];
    return bytesField(2, Buffer.concat([stringField(1, method.name), ...types]));
  });
  return Buffer.concat([stringField(1, name), ...methods]);
}
