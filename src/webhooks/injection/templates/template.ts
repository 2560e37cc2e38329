/**
 * Templates: YAML with Liquid tags. No value ever passes through the YAML parser. Each output `{{ … }}` writes a token
 * into the text, the text is parsed, and the tokens in its scalars and keys are then replaced by the values:
 *
 * - A plain scalar that is one token becomes the value itself: a string, number, boolean, list or object.
 * - In quoted and block scalars, and beside other text, values become part of the text.
 * - Fields and entries whose value is nothing are left out.
 *
 * So a value can neither add fields nor end a string, no matter what the author of the template quotes. Values are not
 * searched for tokens. The tags that write without an output (`cycle`, `capture`, …) and the filter `raw` do not exist.
 */
import { randomBytes } from 'node:crypto';
import { Liquid, type LiquidError, type Template, tags } from 'liquidjs';
import { CtlError, InternalError, messageOf } from '../../../core/errors.ts';
import { isObject } from '../../../core/objects.ts';
import { fieldPath } from '../../../resources/index.ts';
import type { PodRecord } from '../pod-shape.ts';
import type { TemplateData } from '../template-data/types.ts';
import { parseSkeleton, type Skeleton, type Text } from './skeleton.ts';

/** A compiled template. */
export interface InjectionTemplate {
  readonly name: string;
  /**
   * The fields that the template gives.
   * @throws CtlError `failed_precondition` with template and line
   */
  render(data: TemplateData): PodRecord;
}

/** Characters; the built-in template has 6,000. */
const MAX_TEMPLATE = 256 * 1024;
/** Milliseconds. Only loops in templates of users come near. */
const RENDER_LIMIT = 2_000;
/** Characters and list entries that filters and loops make. */
const MEMORY_LIMIT = 4_000_000;
/** Maximum number of control flows of one template whose parsed text is kept. */
const MAX_SKELETONS = 32;

const TAGS: readonly string[] = ['assign', 'for', 'case', 'comment', 'if', 'raw', 'unless', 'break', 'continue', '#'];
/** They write unchanged, evaluate strings as expressions, or depend on time and chance. */
const NO_FILTERS: readonly string[] = [
  'raw',
  'date',
  'date_to_xmlschema',
  'date_to_rfc822',
  'date_to_string',
  'date_to_long_string',
  'find_exp',
  'find_index_exp',
  'group_by_exp',
  'has_exp',
  'inspect',
  'reject_exp',
  'sample',
  'where_exp',
];

/** @throws CtlError `invalid_argument` with `location` and the line in the template */
export function compileTemplate(
  name: string,
  text: string,
  location: { readonly file: string; readonly field: string },
): InjectionTemplate {
  const outputs = new Outputs(text);
  const liquid = engine(outputs);
  try {
    return new LiquidTemplate(name, liquid.parse(text), liquid, outputs);
  } catch (error) {
    throw new CtlError('invalid_argument', liquidProblem(error), location);
  }
}

function engine(outputs: Outputs): Liquid {
  const liquid = new Liquid({
    strictFilters: true,
    ownPropertyOnly: true,
    cache: false,
    parseLimit: MAX_TEMPLATE,
    renderLimit: RENDER_LIMIT,
    memoryLimit: MEMORY_LIMIT,
    outputEscape: (value: unknown) => outputs.token(value),
  });
  for (const tag of Object.keys(tags)) if (!TAGS.includes(tag)) delete liquid.tags[tag];
  for (const filter of NO_FILTERS) delete liquid.filters[filter];
  return liquid;
}

/** The values of one rendering, and their tokens. */
class Outputs {
  /** Does not occur in the text of the template, and no value becomes part of it. */
  readonly #mark: string;
  #values: unknown[] = [];

  constructor(text: string) {
    let mark = '';
    do mark = `v${randomBytes(8).toString('hex')}x`;
    while (text.includes(mark));
    this.#mark = mark;
  }

  start(): unknown[] {
    this.#values = [];
    return this.#values;
  }

  token(value: unknown): string {
    return `${this.#mark}${this.#values.push(value) - 1}x`;
  }

  /** Parts of a text of the rendered template: its own, and indices of values. */
  split(text: string): Text {
    const [first = '', ...rest] = text.split(this.#mark);
    const parts: (string | number)[] = first === '' ? [] : [first];
    for (const piece of rest) {
      const end = piece.indexOf('x');
      parts.push(Number(piece.slice(0, end)));
      if (end + 1 < piece.length) parts.push(piece.slice(end + 1));
    }
    return parts;
  }

  /** For messages. */
  withoutTokens(text: string): string {
    return this.split(text)
      .map((part) => (typeof part === 'number' ? '{{…}}' : part))
      .join('');
  }
}

class LiquidTemplate implements InjectionTemplate {
  readonly name: string;
  readonly #templates: Template[];
  readonly #liquid: Liquid;
  readonly #outputs: Outputs;
  /** By the rendered text, which contains no values and is the same for most Pods. */
  readonly #skeletons = new Map<string, Skeleton>();

  constructor(name: string, templates: Template[], liquid: Liquid, outputs: Outputs) {
    this.name = name;
    this.#templates = templates;
    this.#liquid = liquid;
    this.#outputs = outputs;
  }

  render(data: TemplateData): PodRecord {
    const values = this.#outputs.start();
    const text = this.#text(data);
    const filled = fill(this.#skeleton(text), { values, template: this.name, path: [] });
    if (filled === undefined || filled === null) return {};
    if (isObject(filled)) return filled;
    throw templateError(this.name, 'expected fields of a Pod: metadata, spec');
  }

  #text(data: TemplateData): string {
    try {
      return String(this.#liquid.renderSync(this.#templates, data));
    } catch (error) {
      throw templateError(this.name, liquidProblem(error));
    }
  }

  #skeleton(text: string): Skeleton {
    const known = this.#skeletons.get(text);
    if (known !== undefined) return known;
    const parsed = parseSkeleton(text, (scalar) => this.#outputs.split(scalar));
    if ('problem' in parsed) {
      throw templateError(this.name, `rendered ${this.#outputs.withoutTokens(parsed.problem)}`);
    }
    const [oldest] = this.#skeletons.keys();
    if (oldest !== undefined && this.#skeletons.size >= MAX_SKELETONS) this.#skeletons.delete(oldest);
    this.#skeletons.set(text, parsed.skeleton);
    return parsed.skeleton;
  }
}

/** A problem of a template, and not of the Pod. */
export function templateError(name: string, message: string): CtlError {
  return new CtlError('failed_precondition', `template ${name}: ${message}`);
}

/** `line 3: undefined filter: foo`; the library ends its messages with file, line and column. */
function liquidProblem(error: unknown): string {
  const message = messageOf(error)
    .split('\n')[0]
    ?.replace(/,? ?(file:.*, )?line:\d+, col:\d+$/, '');
  const { token } = error as Partial<LiquidError>;
  if (token === undefined) return String(message);
  const [line] = token.getPosition();
  return `line ${line}: ${message}`;
}

interface Filling {
  readonly values: readonly unknown[];
  readonly template: string;
  readonly path: readonly (string | number)[];
}

function fill(skeleton: Skeleton, filling: Filling): unknown {
  switch (skeleton.kind) {
    case 'constant':
      return skeleton.value;
    case 'output':
      return data(filling.values[skeleton.index], filling);
    case 'text':
      return textOf(skeleton.text, filling);
    case 'list':
      return skeleton.entries
        .map((entry, index) => fill(entry, inside(filling, index)))
        .filter((entry) => entry !== undefined && entry !== null);
    case 'fields':
      return fillFields(skeleton.fields, filling);
    default:
      throw new InternalError('unknown template element');
  }
}

function fillFields(fields: readonly (readonly [Text, Skeleton])[], filling: Filling): PodRecord {
  const filled = new Map<string, unknown>();
  for (const [name, value] of fields) {
    const key = textOf(name, filling);
    const within = inside(filling, key);
    if (key === '__proto__') throw wrong(within, 'is not a field name');
    if (filled.has(key)) throw wrong(within, 'occurs twice');
    const content = fill(value, within);
    if (content !== undefined && content !== null) filled.set(key, content);
  }
  return Object.fromEntries(filled);
}

function inside(filling: Filling, step: string | number): Filling {
  return { ...filling, path: [...filling.path, step] };
}

function wrong({ template, path }: Filling, message: string): CtlError {
  return templateError(template, `${fieldPath(path)}: ${message}`);
}

/** JSON data; results of some filters are none. */
function data(value: unknown, filling: Filling): unknown {
  if (value === undefined || value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  if (Array.isArray(value)) return value;
  if (typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value))) return value;
  throw wrong(filling, 'expected a string, number, boolean, list or object');
}

function textOf(text: Text, filling: Filling): string {
  return text.map((part) => (typeof part === 'string' ? part : asText(part, filling))).join('');
}

function asText(index: number, filling: Filling): string {
  const value = data(filling.values[index], filling) ?? '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
