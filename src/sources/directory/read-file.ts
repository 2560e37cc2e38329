/** Reads one file of the directory: its documents, or the one reason why it cannot be read. */
import { constants, readFileSync } from 'node:fs';
import { errnoOf } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import type { DocumentLimits, ResourceProblem } from '../../resources/index.ts';
import { checkDecoded, NotUtf8 } from '../utf8.ts';
import { type FilePart, readDocuments, SOURCE, salvagedPieces } from './documents.ts';

/** Larger files are refused: real configuration is much smaller, and reading larger files would block other work. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** If a pipe has replaced the file since the stat, opening it must not wait for a writer. */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** A file that gives no documents. */
export interface UnreadableFile {
  readonly problem: ResourceProblem;
  /** `gone`: deleted since the scan. `unread`: its content is unknown. `encoding`: it is not UTF-8. */
  readonly state: 'gone' | 'unread' | 'encoding';
}

/**
 * Reads without the thread pool, which would make reading a small file ten times slower.
 * @param size bytes, from the stat
 * @param previous parts of the last reading, reused where they are unchanged
 */
export function* readResourceFile(
  path: string,
  size: number,
  previous: readonly FilePart[] | undefined,
  limits: DocumentLimits,
): Slices<{ readonly parts: FilePart[] } | UnreadableFile> {
  const problem = (state: UnreadableFile['state'], message: string, line?: number): UnreadableFile => {
    const origin = { source: SOURCE, file: path, ...(line === undefined ? {} : { line }) };
    return { problem: { id: path, origin, field: '', message }, state };
  };
  if (size > MAX_FILE_BYTES)
    return problem('unread', `expected a file of at most ${MAX_FILE_BYTES} bytes, got ${size} bytes`);
  try {
    const text = readFileSync(path, { encoding: 'utf8', flag: READ_FLAGS });
    checkDecoded(text, () => readFileSync(path, { flag: READ_FLAGS }));
    return { parts: yield* readDocuments(path, text, previous, limits) };
  } catch (error) {
    if (error instanceof NotUtf8) return withPolicies(path, problem('encoding', error.message, error.line));
    const code = errnoOf(error);
    return problem(code === 'ENOENT' ? 'gone' : 'unread', `expected a readable file: ${code ?? String(error)}`);
  }
}

/** Searches bytes that are not UTF-8 for policies: the words that identify them are ASCII. */
function withPolicies(path: string, { problem, state }: UnreadableFile): UnreadableFile {
  const substitutes = salvagedPieces(readFileSync(path, { encoding: 'latin1', flag: READ_FLAGS }));
  return { state, problem: substitutes === undefined ? problem : { ...problem, substitutes } };
}
