/** Reads one file of the directory: its documents, or the one reason why it cannot be read. */
import { constants, readFileSync } from 'node:fs';
import { errnoOf } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import type { DocumentLimits, ResourceProblem } from '../../resources/index.ts';
import { checkDecoded, NotUtf8 } from '../utf8.ts';
import { type FilePart, readDocuments, SOURCE, salvagedPieces } from './documents.ts';

/** Larger files are refused: real configuration never comes near, and reading them would block everything else. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** If a pipe has replaced the file since the stat, opening it must not wait for a writer. */
export const READ_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** A file that gives no documents. */
export interface UnreadableFile {
  readonly problem: ResourceProblem;
  /** `gone`: it existed a moment ago. `unread`: its content is unknown. `encoding`: it is not text. */
  readonly state: 'gone' | 'unread' | 'encoding';
}

/**
 * Reads without the thread pool: through the pool, the four steps of reading a small file that exists take ten times as
 * long as the reading.
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

/** Bytes that are not UTF-8 are searched for policies: the words that identify them are plain ASCII. */
function withPolicies(path: string, { problem, state }: UnreadableFile): UnreadableFile {
  const substitutes = salvagedPieces(readFileSync(path, { encoding: 'latin1', flag: READ_FLAGS }));
  return { state, problem: substitutes === undefined ? problem : { ...problem, substitutes } };
}
