/**
 * Issuers of end users' tokens: key pairs, tokens of ctl-jwt, and servers of their key sets, which a test can make
 * fail.
 */
import { execFile } from 'node:child_process';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort, type Owner, programFile, tempDir } from '../../harness/index.ts';

const CTL_JWT = programFile('ctl-jwt');

/** A private key in a file for ctl-jwt. */
export interface IssuerKey {
  /** A token of this key, by the flags of ctl-jwt: `token('--iss', 'me')`. */
  token(...flags: readonly string[]): Promise<string>;
  /** Its key set, JSON. */
  readonly jwks: string;
}

const ecKey = (namedCurve: string) => (): KeyObject => generateKeyPairSync('ec', { namedCurve }).privateKey;

/** Functions that make private keys, by name. */
export const KEY_KINDS = {
  RSA: () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
  'P-256': ecKey('P-256'),
  'P-384': ecKey('P-384'),
  'P-521': ecKey('P-521'),
  Ed25519: () => generateKeyPairSync('ed25519').privateKey,
} as const;

export async function issuerKey(owner: Owner, kid: string, kind: keyof typeof KEY_KINDS = 'P-256'): Promise<IssuerKey> {
  const file = join(await tempDir(owner), 'key.pem');
  const privateKey = KEY_KINDS[kind]();
  await writeFile(file, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  const run = async (...flags: readonly string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(process.execPath, [CTL_JWT, file, '--kid', kid, ...flags]);
    return stdout.trimEnd();
  };
  return { token: run, jwks: await run('--jwks') };
}

export interface KeyServer {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Number of requests. */
  readonly asked: number;
  /** Requests without an answer so far. */
  readonly open: number;
  /** Changes its answers from now on. */
  answer(listener: RequestListener): void;
  /** Stops: existing connections are closed and new ones refused. */
  down(): Promise<void>;
  up(): Promise<void>;
}

/** A key server on its own port, which is down until `up`. */
export async function keyServer(owner: Owner, first: RequestListener): Promise<KeyServer> {
  const port = await freePort();
  let listener = first;
  let asked = 0;
  let open = 0;
  const server = createServer((request, response) => {
    asked++;
    open++;
    response.on('close', () => open--);
    listener(request, response);
  });
  const down = async (): Promise<void> => {
    if (!server.listening) return;
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  owner.after(down);
  return {
    url: `http://127.0.0.1:${port}`,
    get asked() {
      return asked;
    },
    get open() {
      return open;
    },
    answer: (next) => {
      listener = next;
    },
    down,
    up: () => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve)),
  };
}

/** A server's answer that is always this text. */
export const always =
  (text: string): RequestListener =>
  (_, response) =>
    void response.end(text);
