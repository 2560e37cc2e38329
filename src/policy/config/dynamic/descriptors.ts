/**
 * Reads a FileDescriptorSet
 * (https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto) from documents, within
 * limits: its author may be any tenant. No code is generated from it.
 */
import { CtlError } from '../../../core/errors.ts';
import { WireReader } from '../../../protobuf/wire/index.ts';

/** Those of Istio's templates have 5 to 10 files, up to 60 messages and 500 fields. */
const MAX_FILES = 64;
const MAX_MESSAGES = 1000;
const MAX_FIELDS = 10_000;
/** Messages inside messages. */
const MAX_DEPTH = 8;
/** Extensions of FileOptions by which a file says that it is a template. */
const TEMPLATE_VARIETY = 72_295_727;
const TEMPLATE_NAME = 72_295_888;

export interface FieldDescriptor {
  readonly name: string;
  readonly number: number;
  /** `FieldDescriptorProto.Type`. */
  readonly type: number;
  readonly repeated: boolean;
  /** With a leading dot; of messages and enumerations. */
  readonly typeName: string;
}

export interface MessageDescriptor {
  /** With a leading dot. */
  readonly name: string;
  readonly fields: readonly FieldDescriptor[];
  readonly isMapEntry: boolean;
}

export interface MethodDescriptor {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly input: string;
  readonly output: string;
}

export interface FileDescriptor {
  readonly name: string;
  readonly package: string;
  readonly methods: readonly MethodDescriptor[];
  /** Names of its messages outside of others, with a leading dot. */
  readonly messages: readonly string[];
  readonly templateVariety?: number;
  readonly templateName?: string;
}

export interface Descriptors {
  readonly files: readonly FileDescriptor[];
  readonly messages: ReadonlyMap<string, MessageDescriptor>;
  /** Numbers by name. */
  readonly enums: ReadonlyMap<string, ReadonlyMap<string, number>>;
}

/** Throws CtlError `invalid_argument`. */
export function readDescriptors(base64: string): Descriptors {
  const reading = new Reading();
  const set = new WireReader(Buffer.from(base64, 'base64'));
  for (let field = set.next(); field !== undefined; field = set.next()) {
    if (field.number === 1) reading.file(set.inside(field));
  }
  if (reading.files.length === 0) throw wrong('it has no file');
  return reading;
}

const wrong = (reason: string): CtlError =>
  new CtlError('invalid_argument', `not a usable FileDescriptorSet: ${reason}`);

/** A part of the set as pairs of field and reader position are visited. */
type Visit = (reader: WireReader, field: NonNullable<ReturnType<WireReader['next']>>) => void;

function each(reader: WireReader, visit: Visit): void {
  for (let field = reader.next(); field !== undefined; field = reader.next()) visit(reader, field);
}

class Reading implements Descriptors {
  readonly files: FileDescriptor[] = [];
  readonly messages = new Map<string, MessageDescriptor>();
  readonly enums = new Map<string, ReadonlyMap<string, number>>();
  #messages = 0;
  #fields = 0;

  file(reader: WireReader): void {
    if (this.files.length >= MAX_FILES) throw wrong(`more than ${MAX_FILES} files`);
    const found = { name: '', package: '', methods: [] as MethodDescriptor[], messages: [] as string[] };
    const options: { templateVariety?: number; templateName?: string } = {};
    const [messages, enums, services]: [WireReader[], WireReader[], WireReader[]] = [[], [], []];
    each(reader, (at, field) => {
      if (field.number === 1) found.name = at.text(field);
      else if (field.number === 2) found.package = at.text(field);
      else if (field.number === 4) messages.push(at.inside(field));
      else if (field.number === 5) enums.push(at.inside(field));
      else if (field.number === 6) services.push(at.inside(field));
      else if (field.number === 8) readOptions(at.inside(field), options);
    });
    const scope = found.package === '' ? '' : `.${found.package}`;
    for (const message of messages) found.messages.push(this.#message(message, scope, 1));
    for (const each_ of enums) this.#enum(each_, scope);
    for (const service of services) found.methods.push(...methodsOf(service, found.package));
    this.files.push({ ...found, ...options });
  }

  #message(reader: WireReader, scope: string, depth: number): string {
    if (depth > MAX_DEPTH) throw wrong(`more than ${MAX_DEPTH} messages inside each other`);
    if (++this.#messages > MAX_MESSAGES) throw wrong(`more than ${MAX_MESSAGES} messages`);
    let local = '';
    let isMapEntry = false;
    const fields: FieldDescriptor[] = [];
    const [nested, enums]: [WireReader[], WireReader[]] = [[], []];
    each(reader, (at, field) => {
      if (field.number === 1) local = at.text(field);
      else if (field.number === 2) fields.push(this.#field(at.inside(field)));
      else if (field.number === 3) nested.push(at.inside(field));
      else if (field.number === 4) enums.push(at.inside(field));
      else if (field.number === 7) isMapEntry = hasMapEntry(at.inside(field));
    });
    const name = `${scope}.${local}`;
    this.messages.set(name, { name, fields, isMapEntry });
    for (const message of nested) this.#message(message, name, depth + 1);
    for (const each_ of enums) this.#enum(each_, name);
    return name;
  }

  #field(reader: WireReader): FieldDescriptor {
    if (++this.#fields > MAX_FIELDS) throw wrong(`more than ${MAX_FIELDS} fields`);
    const found = { name: '', number: 0, type: 0, repeated: false, typeName: '' };
    each(reader, (at, field) => {
      if (field.number === 1) found.name = at.text(field);
      else if (field.number === 3) found.number = field.value;
      else if (field.number === 4) found.repeated = field.value === 3;
      else if (field.number === 5) found.type = field.value;
      else if (field.number === 6) found.typeName = at.text(field);
    });
    return found;
  }

  #enum(reader: WireReader, scope: string): void {
    let local = '';
    const values = new Map<string, number>();
    each(reader, (at, field) => {
      if (field.number === 1) local = at.text(field);
      else if (field.number === 2) {
        if (++this.#fields > MAX_FIELDS) throw wrong(`more than ${MAX_FIELDS} fields`);
        const value = { name: '', number: 0 };
        each(at.inside(field), (inner, part) => {
          if (part.number === 1) value.name = inner.text(part);
          else if (part.number === 2) value.number = inner.int32(part);
        });
        values.set(value.name, value.number);
      }
    });
    this.enums.set(`${scope}.${local}`, values);
  }
}

function readOptions(reader: WireReader, options: { templateVariety?: number; templateName?: string }): void {
  each(reader, (at, field) => {
    if (field.number === TEMPLATE_VARIETY) options.templateVariety = field.value;
    else if (field.number === TEMPLATE_NAME) options.templateName = at.text(field);
  });
}

function hasMapEntry(reader: WireReader): boolean {
  let found = false;
  each(reader, (_, field) => {
    if (field.number === 7) found = field.value === 1;
  });
  return found;
}

function methodsOf(reader: WireReader, package_: string): MethodDescriptor[] {
  let service = '';
  const found: { name: string; input: string; output: string }[] = [];
  each(reader, (at, field) => {
    if (field.number === 1) service = at.text(field);
    else if (field.number === 2) {
      const method = { name: '', input: '', output: '' };
      each(at.inside(field), (inner, part) => {
        if (part.number === 1) method.name = inner.text(part);
        else if (part.number === 2) method.input = inner.text(part);
        else if (part.number === 3) method.output = inner.text(part);
      });
      found.push(method);
    }
  });
  const prefix = package_ === '' ? service : `${package_}.${service}`;
  return found.map(({ name, input, output }) => ({ path: `/${prefix}/${name}`, input, output }));
}
