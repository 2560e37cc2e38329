/** Turns schema issues into the one line a person needs: which field, and what was expected there. */
import type { z } from 'zod';
import type { ResourceKey, ResourceOrigin, ResourceProblem } from '../kinds/types.ts';

/** An error inside a document. */
export interface ValidationError {
  /** Steps from the document's root; empty for the whole document. */
  readonly path: readonly (string | number)[];
  /** What was expected, one line. */
  readonly message: string;
  /**
   * Set for mistakes that are not a reason to refuse documents that are stored already, because more would be allowed
   * without these documents: a stored document stays in force, or the part with the mistake is closed. New documents
   * with such mistakes are refused.
   */
  readonly stored?: 'in force' | 'closed';
}

/** Message for a field that no schema knows. */
export const UNKNOWN_FIELD = 'unknown field';

/** Map keys that would make a dotted path ambiguous are written in brackets. */
const PLAIN_KEY = /^[A-Za-z_$][\w$-]*$/;
/** Long values are cut, so that a message stays one readable line. */
const MAX_SHOWN = 80;

/** `spec.http[0].headers["x-a.b"]` */
export function fieldPath(path: readonly PropertyKey[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (PLAIN_KEY.test(String(step))) text += text === '' ? String(step) : `.${String(step)}`;
    else text += `[${JSON.stringify(String(step))}]`;
  }
  return text;
}

/** A value as a message shows it: short, on one line. */
export function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : (JSON.stringify(value) ?? String(value));
  if (text.includes('PRIVATE KEY')) return 'a private key';
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}

/** The error without the value that was found: for values that must not appear in logs. */
export function withoutValue(error: ValidationError): ValidationError {
  const end = error.message.indexOf(', got ');
  return end < 0 ? error : { ...error, message: error.message.slice(0, end) };
}

type Issue = z.core.$ZodIssue;

/** One error per issue and per unknown key; unknown fields first, because a misspelt name explains what is missing. */
export function validationErrorsOf(issues: readonly Issue[]): ValidationError[] {
  const unknown = issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ path: [...steps(issue.path), key], message: UNKNOWN_FIELD }))
      : [],
  );
  return [...unknown, ...issues.filter((issue) => issue.code !== 'unrecognized_keys').map(validationErrorOf)];
}

function validationErrorOf(issue: Issue): ValidationError {
  const path = steps(issue.path);
  switch (issue.code) {
    case 'invalid_type':
      return { path, message: issue.input === undefined ? missing(issue) : wrongType(issue) };
    case 'invalid_value':
      return { path, message: `expected one of ${issue.values.join(', ')}${got(issue.input)}` };
    case 'invalid_union':
      return { path, message: unionMessage(issue.errors) };
    default:
      return { path, message: `${oneLine(issue.message)}${got(issue.input)}` };
  }
}

function steps(path: readonly PropertyKey[]): (string | number)[] {
  return path.map((step) => (typeof step === 'number' ? step : String(step)));
}

function missing(issue: Issue & { expected: string }): string {
  return `required, expected ${typeName(issue.expected)}`;
}

function wrongType(issue: Issue & { expected: string }): string {
  // A schema's own wording is more specific than the type's name; the library's wording does not begin like this.
  if (issue.message.startsWith('expected ')) return `${issue.message}${got(issue.input)}`;
  const hint = issue.expected === 'string' && typeof issue.input !== 'object' ? ' (put it in quotes)' : '';
  return `expected ${typeName(issue.expected)}${got(issue.input)}${hint}`;
}

function typeName(expected: string): string {
  const names: Record<string, string> = {
    array: 'a list',
    object: 'an object',
    record: 'an object',
    string: 'a string',
    boolean: 'true or false',
    number: 'a number',
    int: 'a whole number',
  };
  return names[expected] ?? expected;
}

function unionMessage(errors: readonly (readonly Issue[])[]): string {
  const expected = errors.flatMap((branch) =>
    branch.map((issue) => validationErrorOf(issue).message.replace(/^expected /, '')),
  );
  return `expected ${[...new Set(expected)].join(' or ')}`;
}

function got(input: unknown): string {
  return input === undefined || typeof input === 'object'
    ? input === null
      ? ', got null'
      : ''
    : `, got ${shown(input)}`;
}

function oneLine(text: string): string {
  return text.replaceAll('\n', ' ');
}

/** Line (1-based) of the value at a path of the document, where the source knows lines. */
export type Locate = (path: readonly (string | number)[]) => number | undefined;

/** What is wrong with a document that is refused. */
export function problemOf(
  errors: readonly ValidationError[],
  origin: ResourceOrigin,
  locate: Locate,
  index: number,
  key: ResourceKey | undefined,
): ResourceProblem {
  const first = errors[0] ?? { path: [], message: 'expected a valid resource' };
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
  const line = lineOf(first.path, locate) ?? origin.line;
  return {
    id: key ?? `${origin.file ?? origin.source}#${index}`,
    ...(key === undefined ? {} : { key }),
    origin: line === undefined ? origin : { ...origin, line },
    field: fieldPath(first.path),
    message: `${first.message}${more}`,
  };
}

/** Line of the value, or of the closest enclosing value when it is missing. */
export function lineOf(path: readonly (string | number)[], locate: Locate): number | undefined {
  for (let length = path.length; length > 0; length--) {
    const line = locate(path.slice(0, length));
    if (line !== undefined) return line;
  }
  return undefined;
}
