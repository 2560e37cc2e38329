/** The credential that commands show to the debug interface (CTL_DEBUG_TOKEN_FILE). */
import { readFile } from 'node:fs/promises';
import { messageOf } from '../core/errors.ts';
import { discoveryEnv, type Environment, readEnv, usageError } from '../settings/index.ts';

/** Debug pages of large meshes have some hundred megabytes; V8 has no strings above 512 MiB. */
export const MAX_DEBUG_PAGE_BYTES = 512 * 1000 * 1000;

/** The HTTP headers with the token; none when the variable is not set. Rejects with CtlError for an unusable file. */
export async function debugCredential(env: Environment): Promise<Readonly<Record<string, string>>> {
  const { CTL_DEBUG_TOKEN_FILE } = discoveryEnv;
  const file = String(readEnv({ CTL_DEBUG_TOKEN_FILE }, env).get('debugTokenFile') ?? '');
  if (file === '') return {};
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw usageError(`CTL_DEBUG_TOKEN_FILE: ${messageOf(error)}`, error);
  });
  const token = text.trim();
  if (!/^[\w.~+/=-]+$/.test(token)) throw usageError(`CTL_DEBUG_TOKEN_FILE: ${file} is not a token`);
  return { authorization: `Bearer ${token}` };
}
