/** `template` documents: what adapters outside are called with, and what they return. */
import { CtlError } from '../../../core/errors.ts';
import type { Value, ValueType } from '../../../expressions/index.ts';
import { WireReader } from '../../../protobuf/wire/index.ts';
import type {
  DynamicCheckResult,
  DynamicQuotaResult,
  DynamicTemplate,
  RemoteParams,
  Status,
  Variety,
} from '../../types.ts';
import { fingerprint } from '../fingerprint.ts';
import { type Descriptors, type FieldDescriptor, type MethodDescriptor, readDescriptors } from './descriptors.ts';
import { bytesField, stringField, varintField, WRAPPERS } from './messages.ts';

/** By `istio.mixer.adapter.model.v1beta1.TemplateVariety`. Attribute generators are not supported. */
const VARIETIES: ReadonlyMap<number, Variety> = new Map([
  [0, 'CHECK'],
  [1, 'REPORT'],
  [2, 'QUOTA'],
  [4, 'CHECK_WITH_OUTPUT'],
]);

export interface CompiledTemplate {
  readonly template: DynamicTemplate;
  readonly descriptors: Descriptors;
  /** The name of the message of instances, with a leading dot. */
  readonly instanceMessage: string;
}

/** Throws CtlError `invalid_argument`. */
export function compileTemplate(id: string, base64: string): CompiledTemplate {
  const descriptors = readDescriptors(base64);
  const files = descriptors.files.filter(({ templateVariety }) => templateVariety !== undefined);
  const [file] = files;
  if (file === undefined || files.length > 1) throw wrong('expected one file with the option template_variety');
  if (!/^[a-zA-Z]+$/.test(file.templateName ?? '')) {
    throw wrong('expected the option template_name with a name of letters');
  }
  const variety = VARIETIES.get(file.templateVariety ?? -1);
  if (variety === undefined) throw wrong('templates of attribute generators are not supported');
  const scope = file.package === '' ? '' : `.${file.package}`;
  const instanceMessage = `${scope}.InstanceMsg`;
  const [method] = file.methods;
  if (method === undefined || file.methods.length > 1) throw wrong('expected a service with one method');
  if (!descriptors.messages.has(instanceMessage)) throw wrong('expected a message InstanceMsg');
  checkRequest(descriptors, method, instanceMessage, variety);
  const output = variety === 'CHECK_WITH_OUTPUT' ? outputOf(descriptors, `${scope}.OutputMsg`) : [];
  const template = new Template({ id, fingerprint: fingerprint([id, base64]), variety, method: method.path }, output);
  return { template, descriptors, instanceMessage };
}

const wrong = (message: string): CtlError => new CtlError('invalid_argument', message);

/** The fields of requests have the numbers that Istio's generator of templates gives them. */
function checkRequest(
  { messages }: Descriptors,
  { input }: MethodDescriptor,
  instanceMessage: string,
  variety: Variety,
): void {
  const fields = messages.get(input)?.fields ?? [];
  const fits = (number: number, typeName: string, repeated = false): boolean =>
    fields.some((each) => each.number === number && each.typeName === typeName && each.repeated === repeated);
  if (!fits(1, instanceMessage, variety === 'REPORT')) throw wrong('expected InstanceMsg as field 1 of the request');
  if (!fits(2, '.google.protobuf.Any')) throw wrong('expected google.protobuf.Any as field 2 of the request');
}

interface Output {
  readonly field: FieldDescriptor;
  readonly type: ValueType;
}

/** Types of fields of `OutputMsg`, by `FieldDescriptorProto.Type`. */
const OUTPUT_TYPES: ReadonlyMap<number, ValueType> = new Map([
  [3, 'INT64'],
  [8, 'BOOL'],
  [1, 'DOUBLE'],
  [9, 'STRING'],
]);

function outputOf({ messages }: Descriptors, name: string): readonly Output[] {
  return (messages.get(name)?.fields ?? []).flatMap((field) => {
    const type = typeOf(messages, field);
    return type === undefined ? [] : [{ field, type }];
  });
}

function typeOf(messages: Descriptors['messages'], field: FieldDescriptor): ValueType | undefined {
  const entry = messages.get(field.typeName);
  if (entry?.isMapEntry === true && entry.fields.every(({ type }) => type === 9)) return 'STRING_MAP';
  if (field.repeated) return undefined;
  const wrapped = WRAPPERS.get(field.typeName);
  return wrapped !== undefined && STRINGS.has(wrapped) ? wrapped : OUTPUT_TYPES.get(field.type);
}

const STRINGS: ReadonlySet<ValueType> = new Set<ValueType>(['EMAIL_ADDRESS', 'DNS_NAME', 'URI', 'IP_ADDRESS']);

class Template implements DynamicTemplate {
  readonly id: string;
  readonly fingerprint: string;
  readonly variety: Variety;
  readonly method: string;
  readonly output: ReadonlyMap<string, ValueType>;
  readonly #fields: ReadonlyMap<number, Output>;

  constructor(
    { id, fingerprint, variety, method }: Pick<DynamicTemplate, 'id' | 'fingerprint' | 'variety' | 'method'>,
    output: readonly Output[],
  ) {
    this.id = id;
    this.fingerprint = fingerprint;
    this.variety = variety;
    this.method = method;
    this.output = new Map(output.map(({ field, type }) => [field.name, type]));
    this.#fields = new Map(output.map((each) => [each.field.number, each]));
  }

  encodeRequest({
    instances,
    params,
    deduplicationId,
    quota,
  }: Parameters<DynamicTemplate['encodeRequest']>[0]): Buffer {
    return Buffer.concat([
      ...instances.map((instance) => bytesField(1, instance)),
      ...(params.typeUrl === '' ? [] : [bytesField(2, anyMessage(params))]),
      stringField(3, deduplicationId),
      ...(quota === undefined ? [] : [bytesField(4, bytesField(1, quotaEntry(quota)))]),
    ]);
  }

  decodeCheck(response: Uint8Array): DynamicCheckResult {
    const reader = readerOf(response);
    if (this.variety !== 'CHECK_WITH_OUTPUT') return { ...checkResult(reader), output: new Map() };
    let result: Omit<DynamicCheckResult, 'output'> = NO_RESULT;
    const output = new Map<string, Value>();
    for (let field = reader.next(); field !== undefined; field = reader.next()) {
      if (field.number === 1) result = checkResult(reader.inside(field));
      else if (field.number === 2) this.#readOutput(reader.inside(field), output);
    }
    return { ...result, output };
  }

  #readOutput(reader: WireReader, output: Map<string, Value>): void {
    for (let field = reader.next(); field !== undefined; field = reader.next()) {
      const known = this.#fields.get(field.number);
      if (known === undefined) continue;
      const { name } = known.field;
      if (known.type === 'STRING_MAP') {
        const map = (output.get(name) ?? new Map<string, string>()) as Map<string, string>;
        const entry = stringsIn(reader.inside(field));
        output.set(name, map.set(entry.get(1) ?? '', entry.get(2) ?? ''));
      } else {
        const value = outputValue(reader, field, known);
        if (value !== undefined) output.set(name, value);
      }
    }
  }

  decodeQuota(response: Uint8Array): ReadonlyMap<string, DynamicQuotaResult> {
    const reader = readerOf(response);
    const found = new Map<string, DynamicQuotaResult>();
    for (let field = reader.next(); field !== undefined; field = reader.next()) {
      if (field.number !== 1) continue;
      const entry = reader.inside(field);
      let name = '';
      let result: DynamicQuotaResult = { status: OK, grantedAmount: 0, validDurationMs: 0 };
      for (let part = entry.next(); part !== undefined; part = entry.next()) {
        if (part.number === 1) name = entry.text(part);
        else if (part.number === 2) result = quotaResult(entry.inside(part));
      }
      found.set(name, result);
    }
    return found;
  }
}

const OK: Status = { code: 0, message: '' };
const NO_RESULT = { status: OK, validDurationMs: 0, validUseCount: 0 } as const;

type Field = NonNullable<ReturnType<WireReader['next']>>;

const readerOf = (bytes: Uint8Array): WireReader =>
  new WireReader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));

function anyMessage({ typeUrl, value }: RemoteParams): Buffer {
  return Buffer.concat([stringField(1, typeUrl), bytesField(2, value)]);
}

function quotaEntry({ name, amount, bestEffort }: { name: string; amount: bigint; bestEffort: boolean }): Buffer {
  const params = Buffer.concat([varintField(1, amount), ...(bestEffort ? [varintField(2, 1n)] : [])]);
  return Buffer.concat([stringField(1, name), bytesField(2, params)]);
}

/** `istio.mixer.adapter.model.v1beta1.CheckResult`. */
function checkResult(reader: WireReader): Omit<DynamicCheckResult, 'output'> {
  const result = { status: OK, validDurationMs: 0, validUseCount: 0 };
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) result.status = statusOf(reader.inside(field));
    else if (field.number === 2) result.validDurationMs = millisOf(reader.inside(field));
    else if (field.number === 3) result.validUseCount = Math.max(0, reader.int32(field));
  }
  return result;
}

/** `istio.mixer.adapter.model.v1beta1.QuotaResult.Result`. */
function quotaResult(reader: WireReader): DynamicQuotaResult {
  const result = { status: OK, grantedAmount: 0, validDurationMs: 0 };
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 2) result.validDurationMs = millisOf(reader.inside(field));
    else if (field.number === 3) result.grantedAmount = Number(int64In(reader, field));
    else if (field.number === 4) result.status = statusOf(reader.inside(field));
  }
  return result;
}

/** `google.rpc.Status`. */
function statusOf(reader: WireReader): Status {
  const status = { code: 0, message: '' };
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) status.code = reader.int32(field);
    else if (field.number === 2) status.message = reader.text(field);
  }
  return status;
}

/** `google.protobuf.Duration`; negative ones are 0. */
function millisOf(reader: WireReader): number {
  let millis = 0;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) millis += Number(int64In(reader, field)) * 1000;
    else if (field.number === 2) millis += reader.int32(field) / 1e6;
  }
  return Math.max(0, millis);
}

function int64In(reader: WireReader, field: Field): bigint {
  let value = 0n;
  for (let at = field.start, shift = 0n; at < field.end; at++, shift += 7n) {
    value |= BigInt((reader.bytes[at] ?? 0) & 0x7f) << shift;
  }
  return BigInt.asIntN(64, value);
}

function stringsIn(reader: WireReader): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  for (let field = reader.next(); field !== undefined; field = reader.next())
    found.set(field.number, reader.text(field));
  return found;
}

function outputValue(reader: WireReader, field: Field, { type, field: { typeName } }: Output): Value | undefined {
  switch (type) {
    case 'INT64':
      return int64In(reader, field);
    case 'BOOL':
      return field.value !== 0;
    case 'DOUBLE':
      return field.end - field.start === 8 ? reader.bytes.readDoubleLE(field.start) : undefined;
    case 'IP_ADDRESS': {
      const inner = reader.inside(field);
      const content = inner.next();
      return content === undefined ? undefined : Uint8Array.from(inner.content(content));
    }
    default:
      return typeName === '' ? reader.text(field) : (stringsIn(reader.inside(field)).get(1) ?? '');
  }
}
