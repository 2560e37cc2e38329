/**
 * Fields that no schema knows. As in a Kubernetes API server, the document is accepted without them, and a warning
 * names each; a field of a newer version, or a typing error, does not affect the rest of the document.
 *
 * If the document without the field would allow more than its author intended, the field is an error, and the document
 * is refused:
 *
 * - Anywhere in the security kinds. A rule without one of its conditions matches more: ALLOW allows more; a DENY with a
 *   misspelt `action` would be an ALLOW; without `mtls` plain text may be accepted.
 * - In `match` of a VirtualService: without the condition, the route matches every request.
 * - In `tls` of a Gateway's server: without `subjectAltNames` every client certificate would be accepted.
 * - In `workloadSelector`, if no label is left: the document would apply to all workloads.
 * - If the name resembles a field that limits the document ({@link NARROWING}) and the document lacks that field.
 *
 * In all other cases, refusing the document would allow more than removing the field: for example, without a Sidecar or
 * the TLS settings of a DestinationRule. So the field is removed.
 */
import type { z } from 'zod';
import { type Kind, SECURITY_KINDS } from '../kinds/types.ts';
import { UNKNOWN_FIELD, type ValidationError } from './issues.ts';
import { resembles } from './resembles.ts';

type Path = readonly (string | number)[];

const SELECTOR = 'workloadSelector';

const SECURITY: ReadonlySet<Kind> = new Set(SECURITY_KINDS);

/** Fields that limit what a document applies to, by kind and the path of the object that has them. */
const NARROWING: Readonly<
  Partial<Record<Kind, readonly { readonly in: RegExp; readonly fields: readonly string[] }[]>>
> = {
  DestinationRule: [{ in: /^$/, fields: ['exportTo', 'workloadSelector'] }],
  EnvoyFilter: [{ in: /^$/, fields: ['workloadSelector'] }],
  Gateway: [
    { in: /^$/, fields: ['selector'] },
    { in: /^servers\/\d+$/, fields: ['bind', 'tls', 'hosts'] },
  ],
  ServiceEntry: [{ in: /^$/, fields: ['exportTo', 'workloadSelector'] }],
  Sidecar: [{ in: /^$/, fields: ['workloadSelector'] }],
  VirtualService: [{ in: /^$/, fields: ['exportTo', 'gateways'] }],
  // Without its condition, the rule would change the headers of all requests.
  rule: [{ in: /^$/, fields: ['match'] }],
};

/** Objects whose unknown fields are always errors: kind → the step of the path to them. */
const GUARDED: Readonly<Partial<Record<Kind, string>>> = { Gateway: 'tls', VirtualService: 'match' };

/** Schemas report errors inside a value only if its type is correct, so pruning may reveal more errors. */
const MAX_ROUNDS = 8;

export interface Pruned {
  /** The content without the fields that may be left out; the content itself when there are none. */
  readonly content: unknown;
  /** What was left out. */
  readonly warnings: readonly ValidationError[];
}

/**
 * Removes the unknown fields of a document's content that may be left out.
 * @param issues the schema's reasons to refuse it
 */
export function pruned(kind: Kind, content: unknown, schema: z.ZodType, issues: readonly z.core.$ZodIssue[]): Pruned {
  const warnings: ValidationError[] = [];
  let rest = content;
  let next = issues;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const current = rest;
    const leavesAll = leavesAllSelected(current);
    const found = unknownFields(next).filter((path) => mayBeLeftOut(kind, current, path, leavesAll));
    if (found.length === 0) break;
    const copy: unknown = structuredClone(rest);
    for (const path of found) {
      removeAt(copy, path);
      warnings.push({ path, message: UNKNOWN_FIELD });
    }
    rest = copy;
    const again = schema.safeParse(rest);
    if (again.success) break;
    next = again.error.issues;
  }
  return { content: rest, warnings };
}

function unknownFields(issues: readonly z.core.$ZodIssue[]): Path[] {
  return issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') return [];
    const around = issue.path.map((step) => (typeof step === 'number' ? step : String(step)));
    return issue.keys.map((key) => [...around, key]);
  });
}

/**
 * Whether the field at a path of a document's content restricts, so that neither its name nor its value may be missing.
 */
export function isGuarded(kind: Kind, path: Path): boolean {
  const guard = GUARDED[kind];
  return SECURITY.has(kind) || (guard !== undefined && path.includes(guard));
}

/** Whether a document of a kind may have such fields. */
export function mayBeGuarded(kind: Kind): boolean {
  return SECURITY.has(kind) || GUARDED[kind] !== undefined;
}

type PathTest = (path: Path) => boolean;

/**
 * Whether a document without the field at a path of its selector would apply to all workloads. The labels of the
 * content are counted once, because each field of a selector is tested.
 */
export function leavesAllSelected(content: unknown): PathTest {
  const selector = valueAt(content, [SELECTOR]);
  const selecting = ['labels', 'matchLabels'].filter((name) => Object.keys(valueAt(selector, [name]) ?? {}).length > 0);
  return ([field, within, ...inside]) =>
    field === SELECTOR && within !== undefined && !selecting.some((name) => name !== within || inside.length > 0);
}

function mayBeLeftOut(kind: Kind, content: unknown, path: Path, leavesAll: PathTest): boolean {
  const around = path.slice(0, -1);
  if (isGuarded(kind, around) || leavesAll(path)) return false;
  const object = valueAt(content, around);
  const place = around.join('/');
  const narrowing = (NARROWING[kind] ?? []).filter((each) => each.in.test(place)).flatMap(({ fields }) => fields);
  return !narrowing.some((field) => !hasField(object, field) && resembles(String(path.at(-1)), field));
}

function hasField(value: unknown, field: string): boolean {
  return hasMembers(value) && Object.hasOwn(value, field);
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let at: unknown = root;
  for (const step of path) at = hasMembers(at) && Object.hasOwn(at, step) ? at[step] : undefined;
  return at;
}

export function removeAt(root: unknown, path: readonly PropertyKey[]): void {
  const around = valueAt(root, path.slice(0, -1));
  const last = path.at(-1);
  if (hasMembers(around) && last !== undefined) delete around[last];
}

/** True for objects and arrays: a path leads through both. */
function hasMembers(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === 'object' && value !== null;
}
