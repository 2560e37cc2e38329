/** The credential by which commands call the debug interface (CTL_DEBUG_TOKEN_FILE). */
import { readFile } from 'node:fs/promises';
import { messageOf } from '../core/errors.ts';
import { discoveryEnv, type Environment, readEnv, usageError } from '../settings/index.ts';

/** HTTP headers of a call; none without the variable. Rejects with CtlError when the file cannot be used. */
export async function debugCredential(env: Environment): Promise<Readonly<Record<string, string>>> {
  const { CTL_DEBUG_TOKEN_FILE } = discoveryEnv;
  const file = String(readEnv({ CTL_DEBUG_TOKEN_FILE }, env).get('debugTokenFile') ?? '');
  if (file === '') return {};
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw usageError(`CTL_DEBUG_TOKEN_FILE: ${messageOf(error)}`, error);
  });
  const token = text.trim();
  if (!/^[\w.~+/=-]+$/.test(token)) throw usageError(`CTL_DEBUG_TOKEN_FILE: ${file} does not hold a token`);
  return { authorization: `Bearer ${token}` };
}
