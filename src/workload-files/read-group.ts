/** Finds a WorkloadGroup in files. */
import { readFile } from 'node:fs/promises';
import { LineCounter, parseAllDocuments } from 'yaml';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import { parseResource, type WorkloadGroupSpec } from '../resources/index.ts';

/** Bytes; a file has the configuration of a mesh, or less. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_ALIASES = 100;

/** The group in a file with any number of documents. Rejects with CtlError when it is missing or invalid. */
export async function groupInFile(file: string, namespace: string, name: string): Promise<WorkloadGroupSpec> {
  const lines = new LineCounter();
  const documents = parseAllDocuments(await textOf(file), { lineCounter: lines, logLevel: 'error', merge: true });
  for (const document of 'empty' in documents ? [] : documents) {
    const { line } = lines.linePos(document.contents?.range?.[0] ?? document.range[0]);
    const [error] = document.errors;
    if (error !== undefined) {
      const [message = ''] = error.message.split('\n');
      throw new CtlError('invalid_argument', `expected YAML: ${message}`, { file, line });
    }
    const parsed = parseResource(
      document.toJS({ maxAliasCount: MAX_ALIASES }),
      { source: 'file', file, line },
      () => line,
    );
    if ('resource' in parsed) {
      const { kind, meta, content } = parsed.resource;
      // The kind determines the content.
      if (kind === 'WorkloadGroup' && meta.namespace === namespace && meta.name === name)
        return content as WorkloadGroupSpec;
    } else if ('problem' in parsed && parsed.problem.key === `WorkloadGroup/${namespace}/${name}`) {
      const { field, message } = parsed.problem;
      throw new CtlError('invalid_argument', message, { file, line, field });
    }
  }
  throw new CtlError('not_found', `there is no WorkloadGroup ${namespace}/${name}`, { file });
}

/** Rejects with CtlError for a file that cannot be read or is too large. */
export async function textOf(file: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (error) {
    throw new CtlError('invalid_argument', `expected a readable file: ${errnoOf(error) ?? messageOf(error)}`, { file });
  }
  if (bytes.length > MAX_BYTES) throw new CtlError('invalid_argument', `expected at most ${MAX_BYTES} bytes`, { file });
  return bytes.toString('utf8');
}
