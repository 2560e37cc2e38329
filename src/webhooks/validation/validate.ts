/**
 * Decides about a document of the mesh before the API server stores it: with the schemas and rules of the store, so
 * that documents that are admitted here take effect there.
 */
import { toCtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { finish } from '../../core/slices.ts';
import {
  type AnyResource,
  type CheckedDocument,
  checkDocument,
  type DocumentLimits,
  type DocumentSettings,
  documentLimits,
  type FieldMessage,
  keyOf,
  MESH_KINDS,
  parseResource,
  unreachedRoutes,
} from '../../resources/index.ts';
import type { AdmissionAnswer, AdmissionRequest } from '../types.ts';

/** Maximum number of problems in one message. */
const MAX_PROBLEMS = 32;
/** The API server cuts warnings after 256 characters each, and drops those beyond 4,096 in total. */
const MAX_WARNINGS = 16;
const MAX_WARNING = 256;

const CHECKED: ReadonlySet<string> = new Set(MESH_KINDS);
const ORIGIN = { source: 'admission' };
const VALID: AdmissionAnswer = { allowed: true, outcome: 'valid' };

/**
 * Answers `/validate`.
 */
export function validateRequest(
  request: AdmissionRequest,
  documents: DocumentSettings = { factor: 1 },
): AdmissionAnswer {
  const { factor, servesDelegates, rootNamespace } = documents;
  const limits = documentLimits(factor, servesDelegates, rootNamespace);
  const { operation, subResource, object, oldObject } = request;
  // Deletions need no validation, and statuses are not read.
  if ((operation !== 'CREATE' && operation !== 'UPDATE') || subResource !== '') return VALID;
  const checked = check(named(object, request.namespace), limits);
  if (checked === undefined || !isMeshKind(checked)) return VALID;
  const { errors } = checked;
  if (errors.length === 0)
    return {
      ...VALID,
      ...warningsOf([...checked.warnings, ...unreachedIn(request, limits, checked.warnings)].map(line)),
    };
  if (operation === 'UPDATE' && (isBeingDeleted(object) || isNoWorse(errors, check(oldObject, limits)))) {
    const effect = checked.stored ?? 'not in force';
    const known = errors.map((error) => `${effect}, as before this change: ${line(error)}`);
    return { ...VALID, ...warningsOf(known) };
  }
  const message = messageOf(request, errors);
  return { allowed: false, refusal: { code: 422, reason: 'Invalid', message }, outcome: 'invalid' };
}

/** The document of a dry run (`kubectl apply --dry-run=server`), if it is valid and of the mesh. */
export function candidateOf(
  request: AdmissionRequest,
  documents: DocumentSettings = { factor: 1 },
): AnyResource | undefined {
  const { operation, subResource, dryRun, object, namespace } = request;
  if (!dryRun || (operation !== 'CREATE' && operation !== 'UPDATE') || subResource !== '') return undefined;
  return resourceOf(named(object, namespace), documentLimits(documents.factor, documents.servesDelegates));
}

function resourceOf(document: unknown, limits: DocumentLimits): AnyResource | undefined {
  const parsed = parseResource(document, ORIGIN, () => undefined, { limits });
  return 'resource' in parsed && CHECKED.has(parsed.resource.kind) ? parsed.resource : undefined;
}

/** Routes that a dry run would make unreachable, where the document's own warnings do not say it. */
function unreachedIn(
  { dryRun, object, oldObject }: AdmissionRequest,
  limits: DocumentLimits,
  known: readonly FieldMessage[],
): readonly FieldMessage[] {
  if (!dryRun) return [];
  const [before, after] = [resourceOf(oldObject, limits), resourceOf(object, limits)];
  if (after === undefined) return [];
  const said = new Set(known.map(({ field }) => field));
  const { routes } = finish(unreachedRoutes([{ key: keyOf(after), before, after }]));
  return routes.flatMap(({ field, route, takenBy }) =>
    said.has(field) ? [] : [{ field, message: `route ${route} is never reached: ${takenBy} takes its requests` }],
  );
}

/** A new object may get its name after admission. */
function named(document: unknown, namespace: string): unknown {
  if (!isObject(document) || !isObject(document.metadata)) return document;
  const { metadata } = document;
  if (metadata.name !== undefined || typeof metadata.generateName !== 'string') return document;
  return { ...document, metadata: { namespace, ...metadata, name: 'generated' } };
}

/** Whether the document is, or is meant to be, of a kind of the mesh. Problems of the Gateway API are in statuses. */
function isMeshKind({ kind }: CheckedDocument): boolean {
  return kind === undefined || CHECKED.has(kind);
}

function check(document: unknown, limits: DocumentLimits): CheckedDocument | undefined {
  try {
    return checkDocument(document, limits);
  } catch (error) {
    const message = `expected a readable object: ${toCtlError(error).message}`;
    return { kind: undefined, errors: [{ field: '', message }], warnings: [] };
  }
}

/**
 * Whether an object with errors had all of them before: it was stored before this version checked it, and its labels,
 * its owners or other fields can be changed.
 */
function isNoWorse(errors: readonly FieldMessage[], before: CheckedDocument | undefined): boolean {
  const known = new Set(before?.errors.map(line));
  return errors.every((error) => known.has(line(error)));
}

/** The last finalizer is removed by an update. */
function isBeingDeleted(document: unknown): boolean {
  return isObject(document) && isObject(document.metadata) && typeof document.metadata.deletionTimestamp === 'string';
}

function messageOf({ kind, namespace, name }: AdmissionRequest, errors: readonly FieldMessage[]): string {
  const what = `${kind.kind} ${[namespace, name].filter((part) => part !== '').join('/')}`.trimEnd();
  const shown = errors.slice(0, MAX_PROBLEMS).map(line);
  const more = errors.length > MAX_PROBLEMS ? [`and ${errors.length - MAX_PROBLEMS} more`] : [];
  return `${what}: ${[...shown, ...more].join('; ')}`;
}

function line({ field, message }: FieldMessage): string {
  return field === '' ? message : `${field}: ${message}`;
}

function warningsOf(lines: readonly string[]): Pick<AdmissionAnswer, 'warnings'> {
  if (lines.length === 0) return {};
  const shown = lines.slice(0, MAX_WARNINGS);
  const more = lines.length > MAX_WARNINGS ? [`${lines.length - MAX_WARNINGS} more warnings`] : [];
  return { warnings: [...shown, ...more].map(shortened) };
}

function shortened(text: string): string {
  return text.length <= MAX_WARNING ? text : `${text.slice(0, MAX_WARNING - 1)}…`;
}
