/**
 * ctl-jwt as its users see it: keys of every kind, claims of every form, and what it says of keys that it cannot use.
 */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify } from 'jose';
import { runCtlJwt } from './jwt.ts';

const folder = mkdtempSync(join(tmpdir(), 'ctl-jwt-'));
after(() => rmSync(folder, { recursive: true }));

function fileOf(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

const pemOf = (key: KeyObject): string => String(key.export({ type: 'pkcs8', format: 'pem' }));
const EC = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const KEYS = {
  rsa: fileOf('rsa.pem', pemOf(RSA)),
  pkcs1: fileOf('pkcs1.pem', String(RSA.export({ type: 'pkcs1', format: 'pem' }))),
  p256: fileOf('p256.pem', pemOf(EC)),
  sec1: fileOf('sec1.pem', String(EC.export({ type: 'sec1', format: 'pem' }))),
  p384: fileOf('p384.pem', pemOf(generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey)),
  p521: fileOf('p521.pem', pemOf(generateKeyPairSync('ec', { namedCurve: 'P-521' }).privateKey)),
  ed25519: fileOf('ed25519.pem', pemOf(generateKeyPairSync('ed25519').privateKey)),
};

async function run(...args: readonly string[]) {
  const out = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({ write: (text: string) => (out[name] += text) });
  const code = await runCtlJwt(args, { stdout: into('stdout'), stderr: into('stderr'), env: {} });
  return { code, ...out };
}

/** What it prints when all goes well, without the end of the line. */
async function printed(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(...args);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^[^\n]+\n$/);
  return stdout.trimEnd();
}

async function claims(...args: readonly string[]): Promise<Record<string, unknown>> {
  return decodeJwt(await printed(KEYS.p256, ...args));
}

describe('a token of ctl-jwt', () => {
  for (const [name, alg, ...args] of [
    ['rsa', 'RS256'],
    ['pkcs1', 'RS256'],
    ['rsa', 'RS512', '--alg', 'RS512'],
    ['rsa', 'PS384', '--alg', 'PS384'],
    ['p256', 'ES256'],
    ['sec1', 'ES256', '--alg', 'ES256'],
    ['p384', 'ES384'],
    ['p521', 'ES512'],
    ['ed25519', 'EdDSA'],
  ] as const) {
    test(`signed with ${name} ${args.join(' ')} is verified with the key set of --jwks as ${alg}`, async () => {
      const token = await printed(KEYS[name], ...args, '--expire', '60', '--aud', 'shop');
      const keySet = JSON.parse(await printed(KEYS[name], ...args, '--jwks')) as JSONWebKeySet;
      assert.equal(keySet.keys.length, 1);
      for (const secret of ['d', 'p', 'q', 'k']) assert.ok(!(secret in (keySet.keys[0] ?? {})), secret);
      const { payload, protectedHeader } = await jwtVerify(token, createLocalJWKSet(keySet), {
        issuer: 'testing@secure.mesh.io',
        subject: 'testing@secure.mesh.io',
        audience: 'shop',
        maxTokenAge: 60,
      });
      assert.deepEqual(protectedHeader, { alg, kid: keySet.keys[0]?.kid, typ: 'JWT' });
      assert.deepEqual([keySet.keys[0]?.alg, (payload.exp ?? 0) - (payload.iat ?? 0)], [alg, 60]);
    });
  }

  test('has the given issuer, subject, audiences and key id', async () => {
    const { iss, sub, aud } = await claims(
      '--iss',
      'https://issuer.example',
      '--sub=web',
      '--aud',
      'a,b',
      '--aud',
      'c',
    );
    assert.deepEqual([iss, sub, aud], ['https://issuer.example', 'web', ['a', 'b', 'c']]);
    const other = await claims('--iss', 'https://issuer.example');
    assert.deepEqual([other.sub, 'aud' in other], ['https://issuer.example', false]);
    const [header = ''] = (await printed(KEYS.p256, '--kid', 'mine')).split('.');
    assert.equal(JSON.parse(Buffer.from(header, 'base64url').toString()).kid, 'mine');
    assert.equal(JSON.parse(await printed(KEYS.p256, '--kid', 'mine', '--jwks')).keys[0].kid, 'mine');
  });

  test('can have expired already', async () => {
    const { exp, iat } = await claims('--expire', '-5');
    assert.equal(Number(exp) - Number(iat), -5);
  });

  test('has claims given as pairs and as JSON; a later one replaces an earlier one', async () => {
    const given = await claims(
      '--claims',
      'role:admin, url:http://x',
      '--claims',
      '{"groups":["a","b"],"role":1,"iss":"i"}',
    );
    assert.deepEqual([given.role, given.url, given.groups, given.iss], [1, 'http://x', ['a', 'b'], 'i']);
  });

  test('has nested claims in the claim nested', async () => {
    const { nested } = await claims('--nested', 'key1:v1,key2:v2', '--nested', '{"deep":{"er":true}}');
    assert.deepEqual(nested, { key1: 'v1', key2: 'v2', deep: { er: true } });
  });
});

const WANTED = 'expected an RSA, EC (P-256, P-384, P-521) or Ed25519 private key in PEM form';
const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
const encrypted = EC.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' });

describe('ctl-jwt refuses with one line', () => {
  const FILES: readonly (readonly [string, string, string])[] = [
    ['a text', 'hello', `is not a valid key; ${WANTED}`],
    ['an empty file', '', `is not a valid key; ${WANTED}`],
    ['half a key', pemOf(EC).slice(0, 80), `is not a valid key; ${WANTED}`],
    ['a public key', String(small.publicKey.export({ type: 'spki', format: 'pem' })), `is a PUBLIC KEY; ${WANTED}`],
    ['an encrypted key', String(encrypted), `the key is encrypted; ${WANTED} without a passphrase`],
    ['a short RSA key', pemOf(small.privateKey), 'the RSA key has 1024 bits; expected 2048 or more'],
    [
      'a key on another curve',
      pemOf(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey),
      `is a key on the curve secp256k1; ${WANTED}`,
    ],
    ['a key of another kind', pemOf(generateKeyPairSync('x25519').privateKey), `is a key of type x25519; ${WANTED}`],
  ];
  for (const [what, text, reason] of FILES) {
    test(`${what} as a key`, async () => {
      const file = fileOf('bad.pem', text);
      assert.deepEqual(await run(file), { code: 1, stdout: '', stderr: `ctl-jwt: ${file}: ${reason}\n` });
    });
  }

  test('a missing file and a folder', async () => {
    const missing = join(folder, 'nosuch.pem');
    const stderr = `ctl-jwt: ${missing}: there is no such file; ${WANTED}\n`;
    assert.deepEqual(await run(missing, '--jwks'), { code: 1, stdout: '', stderr });
    assert.equal((await run(folder)).stderr, `ctl-jwt: ${folder}: cannot be read (EISDIR); ${WANTED}\n`);
  });

  const USES: readonly (readonly [string, readonly string[], RegExp])[] = [
    ['no key', [], /needs KEY\.pem/],
    ['two keys', [KEYS.rsa, KEYS.p256], /unexpected argument/],
    ['an unknown flag', [KEYS.rsa, '--nosuch'], /unknown flag --nosuch/],
    ['seconds that are not a number', [KEYS.rsa, '--expire', '1h'], /"1h" for flag --expire: not a whole number/],
    [
      'an algorithm of other keys',
      [KEYS.p256, '--alg', 'RS256'],
      /"RS256" for flag --alg: the key in .* signs with ES256/,
    ],
    ['no signature at all', [KEYS.rsa, '--alg', 'none'], /"none" for flag --alg/],
    [
      'a claim without value',
      [KEYS.rsa, '--claims', 'role'],
      /"role" for flag --claims: expected name:value,… or JSON/,
    ],
    ['a claim without name', [KEYS.rsa, '--nested', ':x'], /":x" for flag --nested/],
    ['invalid JSON', [KEYS.rsa, '--claims', '{"a":'], /"\{\\"a\\":" for flag --claims: not a JSON object/],
  ];
  for (const [what, args, expected] of USES) {
    test(what, async () => {
      const { code, stdout, stderr } = await run(...args);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, /^ctl-jwt: [^\n]+\n$/);
      assert.match(stderr, expected);
    });
  }
});

describe('ctl-jwt as a process', () => {
  const program = fileURLToPath(new URL('../ctl-jwt.ts', import.meta.url));

  test('prints help and tokens', () => {
    const start = (...args: readonly string[]) =>
      execFileSync(process.execPath, [program, ...args], { encoding: 'utf8' });
    assert.match(start('--help'), /^ {2}ctl-jwt KEY\.pem \[flags\]$/m);
    assert.equal(start(KEYS.p256, '--expire=1').split('.').length, 3);
  });

  test('refuses an older Node.js with one line', () => {
    const older = 'data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"22.9.0"}})';
    const { status, stderr } = spawnSync(process.execPath, ['--import', older, program], { encoding: 'utf8' });
    assert.deepEqual([status, stderr], [1, `ctl-jwt: Node.js 24 or newer is needed, this is ${process.version}\n`]);
  });
});

test('--version prints the version, and needs no key', async () => {
  const { code, stdout } = await run('--version');
  assert.equal(code, 0);
  assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
  assert.match((await run('--help')).stdout, /^ +--version +Print the version\.$/m);
});
