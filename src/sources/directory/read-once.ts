/** Reads documents of files and directories once, for commands that look at them without following them. */
import { stat } from 'node:fs/promises';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { finish } from '../../core/slices.ts';
import {
  type DocumentLimits,
  documentLimits,
  type ParsedResource,
  type ResourceOrigin,
} from '../../resources/index.ts';
import { parseYaml } from '../complete-yaml.ts';
import { type FilePart, readDocuments } from './documents.ts';
import { readPlainYaml } from './plain-yaml.ts';
import { readResourceFile } from './read-file.ts';
import { scanTree } from './scan.ts';

/** A document, and what it was read as. */
export interface ReadDocument {
  /** Undefined where it cannot be read. */
  readonly raw: Readonly<Record<string, unknown>> | undefined;
  readonly parsed: ParsedResource;
}

/** As when documents are followed. */
const MAX_ALIASES = 100;

/**
 * The documents of files, and of all files below directories, in the order of their paths.
 * @throws CtlError for a path that cannot be read
 */
export async function readPaths(paths: readonly string[]): Promise<ReadDocument[]> {
  const found: ReadDocument[] = [];
  for (const path of paths) {
    for (const [file, size] of await filesOf(path)) found.push(...documentsOf(file, size));
  }
  return found;
}

/** The documents of a text that is in no file. */
export function readText(name: string, text: string): ReadDocument[] {
  return finish(readDocuments(name, text)).flatMap(withRaw);
}

async function filesOf(path: string): Promise<readonly (readonly [file: string, size: number])[]> {
  try {
    const info = await stat(path);
    if (!info.isDirectory()) return [[path, info.size]];
    const { files } = await scanTree(path, () => {});
    return [...files].map(([file, { size }]) => [file, size] as const).sort(([a], [b]) => (a < b ? -1 : 1));
  } catch (error) {
    const reason = errnoOf(error) ?? messageOf(error);
    throw new CtlError('invalid_argument', `expected a readable file or directory: ${reason}`, { file: path });
  }
}

const LIMITS: DocumentLimits = documentLimits(1);

function documentsOf(file: string, size: number): ReadDocument[] {
  const read = finish(readResourceFile(file, size, undefined, LIMITS));
  if ('problem' in read) return [{ raw: undefined, parsed: { problem: read.problem } }];
  return read.parts.flatMap(withRaw);
}

function withRaw(part: FilePart): ReadDocument[] {
  const written = rawOf(part.text).flatMap(itemsOf);
  return part.found.map((parsed, index) => {
    // Items of lists are parsed in their order; where the numbers differ, some part was not readable.
    const raw = written.length === part.found.length ? written[index] : undefined;
    return { raw: isObject(raw) ? raw : undefined, parsed };
  });
}

function rawOf(text: string): unknown[] {
  const plain = readPlainYaml(text);
  if (plain !== undefined) return [plain.value];
  const { document } = parseYaml(text);
  if (document.errors.length > 0) return [];
  try {
    return [document.toJS({ maxAliasCount: MAX_ALIASES })];
  } catch {
    // Too many aliases: the document is a problem already.
    return [];
  }
}

function itemsOf(raw: unknown): unknown[] {
  if (!isObject(raw) || !Array.isArray(raw.items) || !/list$/i.test(String(raw.kind))) return [raw];
  return raw.items.flatMap(itemsOf);
}

/** Where a document was read, whatever it was read as. */
export function originOf(parsed: ParsedResource): ResourceOrigin {
  if ('resource' in parsed) return parsed.resource.origin;
  return 'problem' in parsed ? parsed.problem.origin : parsed.ignored.origin;
}
