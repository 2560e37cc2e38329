/** Files with credentials, as kubeconfigs and service accounts name them. */
import { readFile } from 'node:fs/promises';
import { errnoOf, messageOf } from '../core/errors.ts';
import { refusal } from './kubeconfig-entries.ts';

/** Reads a bearer token from a file. Rejects with CtlError naming the file. */
export async function readToken(file: string): Promise<string> {
  const token = (await readText(file, file)).trim();
  checkToken(token, file, '');
  return token;
}

/**
 * @throws CtlError if the string cannot be a token
 */
export function checkToken(token: string, file: string, field: string): void {
  if (!/^[\x21-\x7e]+$/.test(token)) throw refusal(file, field, 'expected a token of printable characters');
}

/**
 * Reads a PEM file. An empty file is refused, because Node.js trusts public certificate authorities if no others are
 * given.
 * @param at the file and the field that name `file`, for the message
 */
export async function readPem(file: string, at: string, field = ''): Promise<string> {
  const pem = await readText(file, at, field);
  if (!pem.includes('-----BEGIN ')) throw refusal(at, field, `expected PEM text in ${file}`);
  return pem;
}

/** @param at the file and the field that name `file`, for the message */
export async function readText(file: string, at: string, field = ''): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = errnoOf(error) ?? messageOf(error);
    throw refusal(at, field, `cannot read ${file} (${code})`);
  }
}
