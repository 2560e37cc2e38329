/**
 * Compiles parameters to an encoder of a message that a descriptor describes. In parameters of instances, strings are
 * expressions; in those of handlers, they are values.
 */
import { CtlError } from '../../../core/errors.ts';
import { isObject } from '../../../core/objects.ts';
import type { Attributes, Expression, Value, ValueType } from '../../../expressions/index.ts';
import type { Descriptors, FieldDescriptor, MessageDescriptor } from './descriptors.ts';
import {
  bytesField,
  DOUBLES,
  NUMBERS,
  stringField,
  timeMessage,
  VALUE_MESSAGE,
  valueMessage,
  varintField,
  WRAPPERS,
  wrapperMessage,
} from './messages.ts';
import { durationMessage } from './static-times.ts';

export type Encode = (attributes: Attributes) => Buffer;
type Path = readonly (string | number)[];

/** Compiles an expression of the parameters; absent: strings are values. Throws CtlError `invalid_argument`. */
export type CompileText = (path: Path, text: string) => Expression;

/** Parameters inside each other, of a message that may contain itself. */
const MAX_DEPTH = 16;
/** Fields of all messages of the parameters; of instances, also entries of maps and lists, which are expressions. */
const MAX_FIELDS = 256;
const STRING = 9;
const BOOL = 8;
const ENUM = 14;
const MESSAGE = 11;
const NUMERIC: ReadonlySet<number> = new Set([...NUMBERS.keys(), ...DOUBLES.keys()]);
const TEXTS: ReadonlySet<ValueType> = new Set<ValueType>(['STRING', 'DNS_NAME', 'EMAIL_ADDRESS', 'URI']);

/** A mistake in the parameters. */
export class ParamsError extends CtlError {
  readonly path: Path;

  constructor(path: Path, message: string) {
    super('invalid_argument', message);
    this.path = path;
  }
}

/** Throws ParamsError. */
export function compileMessage(
  descriptors: Descriptors,
  message: string,
  params: unknown,
  compileText?: CompileText,
): Encode {
  return new Compiler(descriptors, compileText).message(message, params, []);
}

/** By descriptor: its fields by each name that parameters may use. */
const FIELDS = new WeakMap<MessageDescriptor, ReadonlyMap<string, FieldDescriptor>>();

function fieldsOf(descriptor: MessageDescriptor): ReadonlyMap<string, FieldDescriptor> {
  const known = FIELDS.get(descriptor);
  if (known !== undefined) return known;
  const fields = new Map<string, FieldDescriptor>();
  for (const field of descriptor.fields) {
    for (const name of [field.name, camelCase(field.name)]) if (!fields.has(name)) fields.set(name, field);
  }
  FIELDS.set(descriptor, fields);
  return fields;
}

class Compiler {
  readonly #descriptors: Descriptors;
  readonly #compileText: CompileText | undefined;
  #count = 0;

  constructor(descriptors: Descriptors, compileText: CompileText | undefined) {
    this.#descriptors = descriptors;
    this.#compileText = compileText;
  }

  message(name: string, params: unknown, path: Path): Encode {
    if (path.length > MAX_DEPTH) throw new ParamsError(path, `expected at most ${MAX_DEPTH} levels of parameters`);
    const descriptor = this.#descriptors.messages.get(name);
    if (descriptor === undefined) throw new ParamsError(path, `the descriptor has no message ${name.slice(1)}`);
    if (!isObject(params)) throw new ParamsError(path, 'expected an object');
    this.#counted(Object.keys(params).length, path);
    const fields = fieldsOf(descriptor);
    const parts = Object.entries(params).map(([key, value]) => {
      const field = fields.get(key);
      if (field === undefined) throw new ParamsError([...path, key], `message ${name.slice(1)} has no such field`);
      return { number: field.number, encode: this.#field(field, value, [...path, key]) };
    });
    const encoders = parts.sort((one, other) => one.number - other.number).map(({ encode }) => encode);
    return (attributes) => Buffer.concat(encoders.map((encode) => encode(attributes)));
  }

  #counted(fields: number, path: Path): void {
    this.#count += fields;
    if (this.#count > MAX_FIELDS) throw new ParamsError(path, `expected at most ${MAX_FIELDS} fields of parameters`);
  }

  #field(field: FieldDescriptor, value: unknown, path: Path): Encode {
    if (this.#isMap(field)) return this.#map(field, value, path);
    if (!field.repeated) return this.#single(field, value, path);
    if (!Array.isArray(value)) throw new ParamsError(path, 'expected a list');
    if (this.#compileText !== undefined) this.#counted(value.length, path);
    const all = value.map((item: unknown, index) => this.#single(field, item, [...path, index]));
    return (attributes) => Buffer.concat(all.map((encode) => encode(attributes)));
  }

  #isMap({ type, typeName }: FieldDescriptor): boolean {
    return type === MESSAGE && this.#descriptors.messages.get(typeName)?.isMapEntry === true;
  }

  /** Keys of maps are values, not expressions. */
  #map({ number, typeName }: FieldDescriptor, value: unknown, path: Path): Encode {
    if (!isObject(value)) throw new ParamsError(path, 'expected an object');
    if (this.#compileText !== undefined) this.#counted(Object.keys(value).length, path);
    const fields = this.#descriptors.messages.get(typeName)?.fields ?? [];
    const [keyField, valueField] = [1, 2].map((each) => fields.find((field) => field.number === each));
    if (keyField?.type !== STRING || valueField === undefined) throw new ParamsError(path, 'expected a map by strings');
    const entries = Object.entries(value).map(([key, item]) => {
      const encode = this.#single(valueField, item, [...path, key]);
      const encodedKey = stringField(1, key);
      return (attributes: Attributes) => bytesField(number, Buffer.concat([encodedKey, encode(attributes)]));
    });
    return (attributes) => Buffer.concat(entries.map((encode) => encode(attributes)));
  }

  #single(field: FieldDescriptor, value: unknown, path: Path): Encode {
    const { type, typeName, number } = field;
    if (type === MESSAGE) {
      const encode = this.#messageValue(typeName, value, path);
      return (attributes) => bytesField(number, encode(attributes));
    }
    if (type !== STRING && type !== BOOL && !NUMERIC.has(type)) {
      throw new ParamsError(path, 'fields of this type are not supported');
    }
    const written = this.#written(value, path);
    if (written.expression === undefined) {
      const encoded = this.#scalar(field, written.value, path);
      return () => encoded;
    }
    const { expression } = written;
    this.#checkScalarType(field, expression.type, path);
    return (attributes) => this.#scalar(field, expression.evaluate(attributes), path);
  }

  /** A parameter: a value, or an expression. A string in quotes is a value. */
  #written(value: unknown, path: Path): { value?: unknown; expression?: Expression } {
    if (typeof value !== 'string') return { value: typeof value === 'number' ? numeric(value) : value };
    if (this.#compileText === undefined) return { value };
    const quoted = /^"([^"\\]*)"$|^'([^'\\]*)'$/.exec(value);
    if (quoted !== null) return { value: quoted[1] ?? quoted[2] ?? '' };
    return { expression: this.#compileText(path, value) };
  }

  #checkScalarType({ type }: FieldDescriptor, expression: ValueType, path: Path): void {
    const fits =
      type === STRING
        ? TEXTS.has(expression)
        : type === BOOL
          ? expression === 'BOOL'
          : DOUBLES.has(type)
            ? expression === 'DOUBLE'
            : expression === 'INT64' || (type === ENUM && expression === 'STRING');
    if (fits) return;
    const expected = type === STRING ? 'STRING' : type === BOOL ? 'BOOL' : DOUBLES.has(type) ? 'DOUBLE' : 'INT64';
    throw new ParamsError(path, `expected an expression of type ${expected}, got ${expression}`);
  }

  #scalar({ type, number, typeName }: FieldDescriptor, value: unknown, path: Path): Buffer {
    if (type === STRING && typeof value === 'string') return stringField(number, value);
    if (type === BOOL && typeof value === 'boolean') return varintField(number, value ? 1n : 0n);
    const double = DOUBLES.get(type);
    if (double !== undefined && (typeof value === 'number' || typeof value === 'bigint')) {
      return double(number, Number(value));
    }
    if (type === ENUM && typeof value === 'string') {
      const known = this.#descriptors.enums.get(typeName)?.get(value);
      if (known === undefined) throw new ParamsError(path, `expected a value of the enumeration ${typeName.slice(1)}`);
      return varintField(number, BigInt(known));
    }
    const integer = NUMBERS.get(type);
    if (integer !== undefined && typeof value === 'bigint') return integer(number, value);
    throw new ParamsError(path, 'expected a value of the type of the field');
  }

  #messageValue(typeName: string, value: unknown, path: Path): Encode {
    const isValue = typeName === VALUE_MESSAGE;
    const wrapper = WRAPPERS.get(typeName);
    if (this.#compileText !== undefined && (isValue || wrapper !== undefined)) {
      return this.#wrapped(wrapper, value, path);
    }
    const time = durationMessage(typeName, value);
    if (time !== undefined) {
      const encoded = timeMessage(time, time.kind);
      return () => encoded;
    }
    return this.message(typeName, value, path);
  }

  /** @param wrapper undefined: `istio.policy.v1beta1.Value`, which takes any type */
  #wrapped(wrapper: ValueType | undefined, value: unknown, path: Path): Encode {
    const encode = (type: ValueType, content: Value): Buffer =>
      wrapper === undefined ? valueMessage(type, content) : wrapperMessage(type, content);
    const { expression, value: constant } = this.#written(value, path);
    const type = expression?.type ?? TYPE_OF[typeof constant];
    if (type === undefined || (wrapper !== undefined && wrapper !== type)) {
      const got = type === undefined ? 'another value' : type;
      throw new ParamsError(
        path,
        `expected an expression${wrapper === undefined ? '' : ` of type ${wrapper}`}, got ${got}`,
      );
    }
    if (expression !== undefined) return (attributes) => encode(type, expression.evaluate(attributes));
    const encoded = encode(type, constant as Value);
    return () => encoded;
  }
}

const TYPE_OF: Readonly<Record<string, ValueType>> = {
  string: 'STRING',
  bigint: 'INT64',
  number: 'DOUBLE',
  boolean: 'BOOL',
};

const numeric = (value: number): bigint | number => (Number.isSafeInteger(value) ? BigInt(value) : value);

const camelCase = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
