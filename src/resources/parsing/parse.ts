/**
 * Turns a document's plain data into a typed resource, or into a one-line problem. The documents of all sources are
 * parsed here.
 */
import type { z } from 'zod';
import { isObject } from '../../core/objects.ts';
import { dryRunError } from '../dry-run.ts';
import { isIngressTls, type LeftOut, withClosedListeners } from '../ingress-tls.ts';
import { apiVersionsOf, isClusterScoped, isReadAnnotation, kindOf, workloadLabels } from '../kinds/aliases.ts';
import { compiledSchema, REFUSED } from '../kinds/compiled-schema.ts';
import { type ContentOf, SCHEMAS } from '../kinds/schemas.ts';
import {
  type AnyResource,
  CORE_KINDS,
  type Kind,
  MESH_KINDS,
  type ResourceKey,
  type ResourceMeta,
  type ResourceOrigin,
  type ResourceProblem,
  type ResourceWarning,
  resourceKey,
  SERVICE_API_KINDS,
} from '../kinds/types.ts';
import { DEFAULT_LIMITS, type DocumentLimits } from '../limits.ts';
import { waypointLabel } from '../policy-targets.ts';
import { isSecretPath } from '../schema/secret.ts';
import { sidecarConfigurationErrors } from '../sidecar-configuration.ts';
import { MOST_WRONG, trimmed } from '../trimmed.ts';
import { semanticErrors } from '../validate/index.ts';
import { notActedOn } from '../warnings/not-acted-on.ts';
import { isUnhealthy } from '../workload-health.ts';
import { fingerprintOf } from './fingerprint.ts';
import { type IgnoredDocument, ignoredDocument } from './ignored.ts';
import {
  fieldPath,
  type Locate,
  lineOf,
  problemOf,
  shown,
  UNKNOWN_FIELD,
  type ValidationError,
  validationErrorsOf,
  withoutValue,
} from './issues.ts';
import { DEFAULT_NAMESPACE, isMisspeltNamespace, keyIn, metadata, unknownMetadata } from './metadata.ts';
import { nestedTooDeep } from './nesting.ts';
import { EMPTY_VALUE, firstNull, withoutNulls } from './nulls.ts';
import { beyondRawLimits } from './raw-limits.ts';
import { isMeshVersion, isPolicyVersion, meantPolicyKind, refusedPolicy } from './refused-policy.ts';
import { isSecurityKind } from './substitute.ts';
import { isGuarded, leavesAllSelected, mayBeGuarded, pruned } from './unknown-fields.ts';
import { brokenText } from './well-formed-utf16.ts';

/**
 * The result of parsing a document. `ignored` documents are of a kind that a mesh does not read, such as a Deployment.
 */
export type ParsedResource =
  | { readonly resource: AnyResource }
  | { readonly problem: ResourceProblem }
  | { readonly ignored: IgnoredDocument };

const CORE: ReadonlySet<Kind> = new Set(CORE_KINDS);
const SERVICE_API: ReadonlySet<Kind> = new Set(SERVICE_API_KINDS);
const MESH_DOCUMENT_FIELDS: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata', 'spec', 'status']);

interface Envelope {
  readonly kind: Kind;
  readonly meta: ResourceMeta;
  readonly deletionTimestamp?: number;
  /** Unknown fields of the metadata. */
  readonly warnings: readonly ValidationError[];
}

/** A document as it was read, with everything that is wrong with it. */
export type ReadDocument =
  | { readonly resource: AnyResource; readonly warnings: readonly ValidationError[] }
  | { readonly errors: readonly ValidationError[]; readonly key?: ResourceKey }
  | { readonly ignored: IgnoredDocument };

export interface ReadOptions {
  /** Position of the document in its file, to identify it when it has no name. */
  readonly index?: number;
  readonly limits?: DocumentLimits;
}

export function parseResource(
  raw: unknown,
  origin: ResourceOrigin,
  locate: Locate,
  { index = 0, limits = DEFAULT_LIMITS }: ReadOptions = {},
): ParsedResource {
  const read = readDocument(raw, origin, limits);
  if ('ignored' in read) return read;
  if ('errors' in read) {
    return { problem: { ...problemOf(read.errors, origin, locate, index, read.key), ...refusedPolicy(raw) } };
  }
  const { resource, warnings } = read;
  return { resource: warnings.length === 0 ? resource : { ...resource, warnings: warningsOf(warnings, locate) } };
}

type Path = readonly (string | number)[];

const SELECTOR = 'workloadSelector';

/**
 * Path of the first null in place of a restricting value, for which a document is refused: without the field, it would
 * allow more than its author intended. Undefined if there is none.
 *
 * @param written the document's spec with its nulls
 * @param spec the same without nulls
 */
function guardedNull(kind: Kind, written: unknown, spec: unknown): Path | undefined {
  const leavesAll = leavesAllSelected(spec);
  if (mayBeGuarded(kind)) return firstNull(written, [], (path) => isGuarded(kind, path) || leavesAll(path));
  if (!isObject(written)) return undefined;
  return firstNull(written[SELECTOR], [SELECTOR], leavesAll);
}

/** Path of the first null in the TLS settings of each ingress listener of a Sidecar. */
function nullsOfIngressTls(written: unknown): Path[] {
  if (!isObject(written) || !Array.isArray(written.ingress)) return [];
  return written.ingress.flatMap((listener: unknown, index) => {
    if (!isObject(listener)) return [];
    const path = ['ingress', index, 'tls'];
    const found = listener.tls === null ? path : firstNull(listener.tls, path, () => true);
    return found === undefined ? [] : [found];
  });
}

/** Reads a document, and reports all of its errors. */
export function readDocument(raw: unknown, origin: ResourceOrigin, limits = DEFAULT_LIMITS): ReadDocument {
  if (!isObject(raw)) return { errors: [{ path: [], message: `expected a resource, got ${shown(raw)}` }] };
  const kind = documentKind(raw, origin);
  if (typeof kind !== 'string') return 'path' in kind ? { errors: [kind] } : kind;
  // Checked first, because counting is fast.
  const tooMuch = nestedTooDeep(raw) ?? beyondRawLimits(kind, raw, limits);
  if (tooMuch !== undefined) return refused([tooMuch], keyIn(kind, raw.metadata));
  const document = withoutNulls(raw);
  if (!isObject(document)) return { errors: [{ path: [], message: 'expected a resource' }] };
  const envelope = parseEnvelope(kind, document);
  if ('errors' in envelope) return refused(envelope.errors, keyIn(kind, document.metadata));
  const { meta } = envelope;
  const key = resourceKey(kind, meta.namespace, meta.name);
  const broken = brokenText(document);
  if (broken !== undefined) return { errors: [broken], key };
  // Nearly all documents have none.
  const empty = document === raw ? undefined : guardedNull(kind, raw.spec, document.spec);
  if (empty !== undefined) return { errors: [{ path: ['spec', ...empty], message: EMPTY_VALUE }], key };
  const nulls = kind === 'Sidecar' && document !== raw ? nullsOfIngressTls(raw.spec) : [];
  const content = parseContent(envelope, document, { nulls, limits });
  if ('errors' in content) return { errors: content.errors, key };
  const dryRun = dryRunError(kind, meta, content.content, annotationsIn(document));
  if (dryRun !== undefined && dryRun.stored === undefined) return { errors: [dryRun], key };
  const warnings = [...envelope.warnings, ...content.warnings, ...(dryRun === undefined ? [] : [dryRun])];
  return { resource: resourceOf(kind, meta, content.content, origin), warnings };
}

function annotationsIn({ metadata: written }: Record<string, unknown>): unknown {
  return isObject(written) ? written.annotations : undefined;
}

function refused(errors: readonly ValidationError[], key: ResourceKey | undefined): ReadDocument {
  return key === undefined ? { errors } : { errors, key };
}

/** Maximum warnings of one document; a document with more has another problem than a misspelt field. */
const MAX_WARNINGS = 16;

function warningsOf(errors: readonly ValidationError[], locate: Locate): ResourceWarning[] {
  return errors.slice(0, MAX_WARNINGS).map(({ path, message }) => {
    const line = lineOf(path, locate);
    return { field: fieldPath(path), message, ...(line === undefined ? {} : { line }) };
  });
}

/** The union pairs kind and content; the table of schemas, indexed by the same kind, guarantees the pairing here. */
function resourceOf(kind: Kind, meta: ResourceMeta, content: unknown, origin: ResourceOrigin): AnyResource {
  return { kind, meta, content, origin, fingerprint: fingerprintOf(kind, meta, content) } as AnyResource;
}

function documentKind(
  document: Record<string, unknown>,
  origin: ResourceOrigin,
): Kind | ValidationError | { readonly ignored: IgnoredDocument } {
  const { apiVersion, kind } = document;
  if (typeof apiVersion !== 'string') return { path: ['apiVersion'], message: 'required, expected a string' };
  if (typeof kind !== 'string') return { path: ['kind'], message: 'required, expected a string' };
  const known = kindOf(apiVersion, kind);
  if (known !== undefined) return known;
  const [group = ''] = apiVersion.split('/');
  if (isPolicyVersion(apiVersion)) return policyKindOf(apiVersion, kind, origin);
  if (!/^(networking|security)\.(mesh|istio)\.io$/.test(group) && !(isSecurityKind(kind) && isMeshVersion(apiVersion)))
    return { ignored: ignoredDocument(apiVersion, kind, origin) };
  const sameName = [...MESH_KINDS].find((each) => each === kind);
  if (sameName === undefined) return { path: ['kind'], message: `unknown kind ${shown(kind)}` };
  return {
    path: ['apiVersion'],
    message: `expected ${apiVersionsOf(sameName)[0]} for ${kind}, got ${shown(apiVersion)}`,
  };
}

/** A document of the API groups of the policy component that has none of its types: it may be meant as one. */
function policyKindOf(
  apiVersion: string,
  kind: string,
  origin: ResourceOrigin,
): ValidationError | { readonly ignored: IgnoredDocument } {
  const meant = meantPolicyKind(kind);
  if (meant === undefined) return { ignored: ignoredDocument(apiVersion, kind, origin) };
  if (meant !== kind) return { path: ['kind'], message: `expected ${meant}, got ${shown(kind)}` };
  return {
    path: ['apiVersion'],
    message: `expected ${apiVersionsOf(meant)[0]} for ${kind}, got ${shown(apiVersion)}`,
  };
}

function parseEnvelope(
  kind: Kind,
  document: Record<string, unknown>,
): Envelope | { readonly errors: readonly ValidationError[] } {
  const parsed = readBy(metadata, document.metadata);
  const fields = isObject(document.metadata) ? document.metadata : {};
  const warnings = CORE.has(kind) ? [] : [...unknownMetadata(fields)];
  // In another namespace, the document would have another meaning.
  const misplaced = warnings.find(({ path }) => isMisspeltNamespace(String(path[1]), fields));
  if (misplaced !== undefined) return { errors: [misplaced] };
  if (!parsed.success) {
    return {
      errors: validationErrorsOf(parsed.error.issues).map((fault) => ({ ...fault, path: ['metadata', ...fault.path] })),
    };
  }
  const { name, namespace, labels, annotations, creationTimestamp, deletionTimestamp, generation } = parsed.data;
  warnings.push(...waypointLabel(kind, labels ?? {}), ...sidecarConfigurationErrors(kind, { labels, annotations }));
  const read = Object.entries(annotations ?? {}).filter(([key]) => isReadAnnotation(key));
  const meta: ResourceMeta = {
    name,
    namespace: isClusterScoped(kind) ? '' : (namespace ?? DEFAULT_NAMESPACE),
    labels: workloadLabels(labels ?? {}),
    annotations: workloadLabels(Object.fromEntries(read)),
    ...(creationTimestamp === undefined ? {} : { created: Date.parse(creationTimestamp) }),
    ...(generation === undefined || !SERVICE_API.has(kind) ? {} : { generation }),
    ...(kind === 'WorkloadEntry' && isUnhealthy(annotations, document.status) ? { unhealthy: true } : {}),
  };
  if (deletionTimestamp === undefined) return { kind, meta, warnings };
  return { kind, meta, warnings, deletionTimestamp: Date.parse(deletionTimestamp) };
}

/** The schema's result: for a good value at once, for a bad one with the reasons. */
function readBy<T extends z.ZodType>(schema: T, value: unknown): z.ZodSafeParseResult<z.output<T>> {
  const data = compiledSchema(schema)(value);
  if (data === REFUSED) return schema.safeParse(value, { reportInput: true });
  return { success: true, data: data as z.output<T> };
}

type Content =
  | { readonly content: unknown; readonly warnings: readonly ValidationError[] }
  | { readonly errors: readonly ValidationError[] };

/** @param nulls paths of nulls in TLS settings of the content, which have been removed */
function parseContent(
  envelope: Envelope,
  document: Record<string, unknown>,
  { nulls, limits }: { readonly nulls: LeftOut['empty']; readonly limits: DocumentLimits },
): Content {
  const { kind, meta } = envelope;
  const core = CORE.has(kind);
  const base = core ? [] : ['spec'];
  const unknown = core ? [] : unknownAround(document);
  const input = core ? coreInput(envelope, document) : (document.spec ?? {});
  const read = closed(kind, readContent(kind, input), nulls);
  const found = 'errors' in read ? read.errors : semanticErrors(kind, read.content, limits);
  const located = found.map((error) => {
    const safe = isSecretPath(SCHEMAS[kind], error.path) ? withoutValue(error) : error;
    return { ...safe, path: [...base, ...error.path] };
  });
  const errors = located.filter(({ stored }) => stored === undefined);
  const mistakes = located.filter(({ stored }) => stored !== undefined);
  // In a policy, or if there is no known field, an unknown field may be the important one.
  const refused = isSecurityKind(kind) || document.spec === undefined ? unknown : [];
  if ('errors' in read || errors.length > 0 || refused.length > 0) {
    return { errors: [...unknown, ...errors, ...mistakes] };
  }
  const warned = [...read.warnings, ...notActedOn(kind, read.content, limits, meta.namespace)];
  const warnings = warned.map((warning) => ({ ...warning, path: [...base, ...warning.path] }));
  return { content: read.content, warnings: [...unknown, ...mistakes, ...warnings] };
}

/** The content, with listeners closed whose TLS settings cannot be applied. */
function closed<K extends Kind>(kind: K, read: ReadResult<K>, nulls: LeftOut['empty']): ReadResult<K> {
  if (kind !== 'Sidecar' || 'errors' in read) return read;
  const { warnings } = read;
  const unknown = warnings.map(({ path }) => path);
  const { content, reasons } = withClosedListeners(read.content as ContentOf<'Sidecar'>, { unknown, empty: nulls });
  return {
    content: content as ContentOf<K>,
    warnings: [...warnings.filter(({ path }) => !isIngressTls(path)), ...reasons],
  };
}

function unknownAround(document: Record<string, unknown>): ValidationError[] {
  return Object.keys(document)
    .filter((field) => !MESH_DOCUMENT_FIELDS.has(field))
    .map((field) => ({ path: [field], message: UNKNOWN_FIELD }));
}

interface ReadContent<K extends Kind> {
  readonly content: ContentOf<K>;
  readonly warnings: readonly ValidationError[];
}

type ReadResult<K extends Kind> = ReadContent<K> | { readonly errors: readonly ValidationError[] };

/** The schema's output for the content without the unknown fields that may be left out. */
function readContent<K extends Kind>(kind: K, input: unknown): ReadResult<K> {
  const schema: z.ZodType = SCHEMAS[kind];
  const data = compiledSchema(schema)(input);
  // The schema is that of the kind, which determines its output.
  if (data !== REFUSED) return { content: data as ContentOf<K>, warnings: [] };
  const many = manyErrors(schema, input);
  if (many !== undefined) return { errors: many };
  const first = schema.safeParse(input, { reportInput: true });
  if (first.success) return { content: first.data as ContentOf<K>, warnings: [] };
  const { content, warnings } = pruned(kind, input, schema, first.error.issues);
  const second = warnings.length === 0 ? first : schema.safeParse(content, { reportInput: true });
  if (second.success) return { content: second.data as ContentOf<K>, warnings };
  // Unknown fields first: a misspelt name explains what is missing.
  return { errors: [...warnings, ...validationErrorsOf(second.error.issues)] };
}

/** The first errors of content with very many errors: collecting all of them would take long. */
function manyErrors(schema: z.ZodType, input: unknown): readonly ValidationError[] | undefined {
  const { error } = schema.safeParse(trimmed(schema, input), { reportInput: true });
  const errors = validationErrorsOf(error?.issues ?? []);
  // Unknown fields may be left out.
  return errors.filter(({ message }) => message !== UNKNOWN_FIELD).length < MOST_WRONG / 2 ? undefined : errors;
}

function coreInput(envelope: Envelope, document: Record<string, unknown>): Record<string, unknown> {
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, ...rest } = document;
  const { deletionTimestamp } = envelope;
  return deletionTimestamp === undefined ? rest : { ...rest, deletionTimestamp };
}
