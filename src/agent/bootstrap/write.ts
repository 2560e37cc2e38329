/** Writes the bootstrap file: a temporary file is renamed, so that Envoy never reads half of it. */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CtlError, messageOf } from '../../core/errors.ts';
import type { JsonObject } from '../../protobuf/index.ts';
import { checkReachable, makeFolder } from '../folder.ts';

/**
 * Writes it into the folder, which is created if needed. Returns the file's path. Throws a CtlError when that fails.
 */
export async function writeBootstrap(folder: string, content: JsonObject): Promise<string> {
  const path = join(folder, 'envoy-rev0.json');
  try {
    await makeFolder(folder);
    // Templates and overrides may contain credentials.
    await writeFile(`${path}.${process.pid}`, JSON.stringify(content, null, 2), { mode: 0o600 });
    await rename(`${path}.${process.pid}`, path);
  } catch (error) {
    const reason = messageOf(error);
    throw new CtlError('failed_precondition', `cannot write the bootstrap: ${reason}`, { file: path }, error);
  }
  await checkReachable(path);
  return path;
}
