/**
 * Reads the body of a preview: lines of JSON, whose members add up. So a large directory is read line by line, and a
 * small change can be one line that `curl` sends.
 *
 *   {"files": [{"file": "web.yaml", "text": "apiVersion: …"}]}
 *   {"replaceDirectory": true}
 */
import { z } from 'zod';
import { CtlError } from '../core/errors.ts';
import type { Slices } from '../core/slices.ts';
import type { CandidateFile, PreviewRequest } from './types.ts';

/** The body of a request, bytes: more than the configuration of the largest known meshes. */
export const MAX_REQUEST_BYTES = 32 * 1024 * 1024;
/** Characters of one line: it is parsed without interruption. */
const MAX_LINE = 4 * 1024 * 1024;
const MAX_FILES = 50_000;
const MAX_FILE_NAME = 4096;

const lineSchema = z.strictObject({
  files: z.array(z.strictObject({ file: z.string().min(1).max(MAX_FILE_NAME), text: z.string() })).optional(),
  replaceDirectory: z.boolean().optional(),
});

/** Yields after each line. Throws CtlError `invalid_argument`, `resource_exhausted`. */
export function* readRequest(body: Uint8Array): Slices<PreviewRequest> {
  const files: CandidateFile[] = [];
  let replaceDirectory = false;
  for (const line of linesOf(body)) {
    if (line.length > MAX_LINE)
      throw new CtlError('resource_exhausted', `expected lines of at most ${MAX_LINE} bytes, got ${line.length} bytes`);
    const parsed = parseLine(line);
    const { files: more = [] } = parsed;
    if (files.length + more.length > MAX_FILES)
      throw new CtlError('resource_exhausted', `expected at most ${MAX_FILES} files`);
    files.push(...more);
    replaceDirectory ||= parsed.replaceDirectory === true;
    yield;
  }
  if (files.length === 0 && !replaceDirectory) throw invalid('expected {"files": [{"file": "…", "text": "…"}]}');
  return { files, replaceDirectory };
}

function* linesOf(body: Uint8Array): Generator<Uint8Array> {
  for (let from = 0; from < body.length; ) {
    const end = body.indexOf(0x0a, from);
    const to = end < 0 ? body.length : end;
    if (to > from) yield body.subarray(from, to);
    from = to + 1;
  }
}

function parseLine(line: Uint8Array) {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line));
  } catch {
    throw invalid('expected lines of JSON in UTF-8');
  }
  const parsed = lineSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(`${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`);
}

function invalid(message: string): CtlError {
  return new CtlError('invalid_argument', message);
}
