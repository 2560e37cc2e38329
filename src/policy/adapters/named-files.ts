/** Files that handlers name. Errors name the file, and never its content. */
import { CtlError } from '../../core/errors.ts';
import type { AdapterHost } from './types.ts';

/** Rejects with CtlError. */
export async function readNamed(host: Pick<AdapterHost, 'readFile'>, path: string): Promise<Buffer> {
  try {
    return await host.readFile(path);
  } catch (error) {
    throw new CtlError('failed_precondition', `${path} cannot be read`, {}, error);
  }
}

/** Without the white space around it. Rejects with CtlError. */
export async function readText(host: Pick<AdapterHost, 'readFile'>, path: string): Promise<string> {
  return (await readNamed(host, path)).toString('utf8').trim();
}
