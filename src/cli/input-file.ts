/** Reads a file that a flag names; `-` is the standard input. */
import { createReadStream } from 'node:fs';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import { readUpTo } from '../core/network/body.ts';

/**
 * The text of a file in UTF-8. Rejects with CtlError `invalid_argument` that names the file.
 * @param maxBytes a longer file is an error
 */
export async function inputText(name: string, maxBytes: number): Promise<string> {
  const file = name === '-' ? 'standard input' : name;
  const problem = (message: string, cause?: unknown) => new CtlError('invalid_argument', message, { file }, cause);
  const stream = name === '-' ? process.stdin : createReadStream(name);
  const bytes = await readUpTo(maxBytes, stream).catch((error: unknown) => {
    throw problem(`expected a readable file: ${errnoOf(error) ?? messageOf(error)}`, error);
  });
  if (bytes === undefined) throw problem(`expected at most ${maxBytes} bytes`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw problem('expected UTF-8: some bytes are not valid', error);
  }
}

/** The JSON value in a file. Rejects like {@link inputText}. */
export async function inputJson(name: string, maxBytes: number): Promise<unknown> {
  const text = await inputText(name, maxBytes);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    const file = name === '-' ? 'standard input' : name;
    throw new CtlError('invalid_argument', `expected JSON: ${messageOf(error)}`, { file }, error);
  }
}
