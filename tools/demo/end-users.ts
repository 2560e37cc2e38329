/**
 * An issuer of tokens for end users (samples/demo/end-users.yaml): a key for one run, its public half at the `jwksUri`
 * of the sample, and tokens signed by `ctl-jwt`.
 */
import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Owner, tempDir } from '../../test/harness/index.ts';
import { listen } from './applications.ts';
import type { Place } from './ports.ts';

const CTL_JWT = join(import.meta.dirname, '../../src/ctl-jwt.ts');
/** The issuer in the sample. */
const ISSUER = 'demo';
/** Longer than a run of the demo. */
const USER_TTL_SECONDS = 86_400;

export interface EndUsers {
  /** A file with the header line of a valid token, for `curl -H @file`. */
  readonly headerFile: string;
  /** A token of this issuer, by default the sample's. */
  token(issuer?: string): Promise<string>;
}

export async function startEndUsers(owner: Owner, place: Place): Promise<EndUsers> {
  const folder = await tempDir(owner);
  const keyFile = join(folder, 'key.pem');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  const ctlJwt = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(process.execPath, [CTL_JWT, keyFile, ...args]);
    return stdout.trim();
  };
  const token: EndUsers['token'] = (issuer = ISSUER) =>
    ctlJwt('--iss', issuer, '--sub', 'you', '--expire', String(USER_TTL_SECONDS));
  const keys = await ctlJwt('--jwks');
  await listen(owner, place, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(keys);
  });
  const headerFile = join(folder, 'user');
  await writeFile(headerFile, `authorization: Bearer ${await token()}\n`, { mode: 0o600 });
  return { headerFile, token };
}
