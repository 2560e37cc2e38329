/**
 * Injects the Pods of manifests: files with documents of YAML or JSON. Documents without Pods stay as they are, byte by
 * byte; in others comments and the order of fields stay.
 */
import { type Document, LineCounter, parseAllDocuments } from 'yaml';
import { CtlError, messageOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { fieldPath } from '../../resources/index.ts';
import { recordOf } from '../injection/index.ts';
import { jsonPatch } from '../json-patch/index.ts';
import type { Injector, PodObject } from '../types.ts';
import { type Edit, editDocument, offsetOf, stepsOf } from './edit.ts';
import { type PodTemplate, podTemplates } from './pod-templates.ts';

export interface ManifestsInput {
  readonly text: string;
  /** For messages: the name of the file. */
  readonly file: string;
  /** The namespace of documents that do not name one. */
  readonly namespace: string;
  readonly injector: Injector;
}

export interface InjectedManifests {
  readonly text: string;
  /** One line for each Pod that is not injected and why, and for each warning. */
  readonly notes: readonly string[];
}

/** Against documents whose aliases expand to gigabytes. */
const MAX_ALIASES = 100;

/** @throws CtlError with file, line and field */
export function injectManifests(input: ManifestsInput): InjectedManifests {
  const lines = new LineCounter();
  const documents = documentsOf(input, lines);
  const notes: string[] = [];
  let text = '';
  let end = 0;
  for (const document of documents) {
    const to = document.range[2];
    const changed = injectedDocument(document, { ...input, lines, notes });
    if (changed === undefined) text += input.text.slice(end, to);
    else text += text === '' || text.endsWith('\n') ? changed : `\n${changed}`;
    end = to;
  }
  return { text: text + input.text.slice(end), notes };
}

function documentsOf({ text, file }: ManifestsInput, lines: LineCounter): readonly Document.Parsed[] {
  const documents = parseAllDocuments(text, { lineCounter: lines, logLevel: 'error', merge: true });
  if ('empty' in documents) return [];
  for (const { errors } of documents) {
    const [error] = errors;
    if (error === undefined) continue;
    const message = error.message.split('\n')[0]?.replace(/ at line \d+, column \d+:?$/, '');
    throw new CtlError('invalid_argument', `expected YAML: ${message}`, {
      file,
      line: lines.linePos(error.pos[0]).line,
    });
  }
  return documents;
}

interface Injecting extends ManifestsInput {
  readonly lines: LineCounter;
  readonly notes: string[];
}

/** The text of a document that changed; undefined for others. */
function injectedDocument(document: Document.Parsed, injecting: Injecting): string | undefined {
  const { file, lines, text } = injecting;
  let data: unknown;
  try {
    data = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    const line = lines.linePos(document.range[0]).line;
    throw new CtlError('invalid_argument', messageOf(error), { file, line });
  }
  const edits: Edit[] = [];
  for (const template of podTemplates(data)) {
    const pod = injectedTemplate(document, template, injecting);
    if (pod === undefined) continue;
    edits.push({ path: template.path, operations: jsonPatch(template.pod, pod) });
    data = replacedAt(data, template.path, pod);
  }
  if (edits.length === 0) return undefined;
  editDocument(document, edits, data);
  const source = text.slice(document.range[0], document.range[2]);
  if (isJson(source)) return `${JSON.stringify(data, null, 2)}\n`;
  return document.toString({ lineWidth: 0, ...spelling(source) });
}

/** The template with its sidecar; undefined where it has none. */
function injectedTemplate(
  document: Document.Parsed,
  template: PodTemplate,
  injecting: Injecting,
): PodObject | undefined {
  const { file, injector, lines, notes } = injecting;
  const { path, pod, title, owner } = template;
  const at = (steps: readonly (string | number)[]) => {
    const offset = offsetOf(document, [...path, ...steps]);
    return offset === undefined ? {} : { line: lines.linePos(offset).line };
  };
  if (!isObject(pod)) {
    throw new CtlError('invalid_argument', 'expected the template of a Pod', {
      file,
      ...at([]),
      field: fieldPath(path),
    });
  }
  const note = (text: string) => notes.push(`${file}:${at([]).line ?? 1}: ${title}: ${text}`);
  try {
    const owned = owner === undefined ? pod : { ...pod, metadata: ownedBy(pod.metadata, owner) };
    const result = injector.inject(owned, template.namespace ?? injecting.namespace);
    if (result.kind === 'skipped') {
      note(`not injected: ${result.reason}`);
      return undefined;
    }
    for (const warning of result.warnings) note(`warning: ${warning}`);
    return owner === undefined ? result.pod : withOwners(result.pod, pod.metadata);
  } catch (error) {
    if (!(error instanceof CtlError) || error.location.field === undefined) throw error;
    const { field } = error.location;
    const prefix = fieldPath(path);
    const location = {
      file,
      ...at(stepsOf(field)),
      resource: title,
      field: prefix === '' ? field : `${prefix}.${field}`,
    };
    throw new CtlError(error.code, error.message, location, error);
  }
}

/** The metadata that the controller will write into its Pods. Wrong types are left for the injector to refuse. */
function ownedBy(metadata: unknown, owner: unknown): unknown {
  if (metadata === undefined || metadata === null) return { ownerReferences: [owner] };
  return isObject(metadata) ? { ...metadata, ownerReferences: [owner] } : metadata;
}

function withOwners(pod: PodObject, before: unknown): PodObject {
  const { ownerReferences: _owner, ...metadata } = recordOf(pod.metadata);
  const { ownerReferences } = recordOf(before);
  return { ...pod, metadata: ownerReferences === undefined ? metadata : { ...metadata, ownerReferences } };
}

function replacedAt(document: unknown, path: readonly (string | number)[], value: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  if (Array.isArray(document)) {
    return document.map((entry, index) => (index === step ? replacedAt(entry, rest, value) : entry));
  }
  const fields = recordOf(document);
  return { ...fields, [step]: replacedAt(fields[step], rest, value) };
}

function isJson(text: string): boolean {
  if (!/^\s*\{/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether entries of lists are indented, and braces are followed by a blank, as the document has it. */
function spelling(text: string): { readonly indentSeq: boolean; readonly flowCollectionPadding: boolean } {
  const [, parent = '', entry = ''] = /^( *)[\w.-]+:[ \t]*\n(?:[ \t]*(?:#.*)?\n)*( *)- /m.exec(text) ?? [];
  return { indentSeq: entry.length > parent.length, flowCollectionPadding: !/: *\{\w/.test(text) };
}
