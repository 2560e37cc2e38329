import assert from 'node:assert/strict';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { fakeClock } from './authority/testing/fixtures.ts';
import { followLocalIssuer, issueToken } from './local-issuer.ts';
import { NOW } from './testing/credentials.ts';
import { createTokenAuthenticator } from './token-authenticator.ts';

let directory = '';
beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'issuer-')), 'made');
});
afterEach(() => rm(join(directory, '..'), { recursive: true, force: true }));

const token = (changes: { namespace?: string; audience?: string } = {}): Promise<string> =>
  issueToken({
    directory,
    identity: { namespace: changes.namespace ?? 'shop', serviceAccount: 'web' },
    audience: changes.audience ?? 'mesh-ca',
    lifetimeSeconds: 60,
    now: NOW,
  });

async function trusting() {
  const { clock, advance } = fakeClock();
  const problems: string[] = [];
  const issuer = followLocalIssuer({ directory, clock, onProblem: (error) => problems.push(error.oneLine()) });
  await issuer.started;
  const authenticator = createTokenAuthenticator({
    issuers: [issuer],
    trustDomain: 'cluster.local',
    audiences: ['mesh-ca'],
    withoutAudience: false,
    now: clock.now,
  });
  const ask = async (bearer: string): Promise<string> => {
    const caller = await authenticator.authenticate({ certificates: [], bearer, peer: '' });
    return `${caller?.identity.namespace}/${caller?.identity.serviceAccount} until ${(caller?.expiresAt ?? 0) - NOW}`;
  };
  return { issuer, ask, advance, problems };
}

describe('the local issuer', () => {
  it('creates its key once, readable by its owner only, and a public key for others', async () => {
    const tokens = await Promise.all([token(), token(), token()]);
    assert.deepEqual((await readdir(directory)).sort(), ['issuer-key.pem', 'jwks.json']);
    assert.equal((await stat(join(directory, 'issuer-key.pem'))).mode & 0o777, 0o600);
    assert.equal((await stat(directory)).mode & 0o022, 0);
    const jwks = await readFile(join(directory, 'jwks.json'), 'utf8');
    assert.doesNotMatch(jwks, /"d"/);
    const { ask, issuer } = await trusting();
    for (const one of [...tokens, await token()]) assert.equal(await ask(one), 'shop/web until 60000');
    await assert.rejects(ask(await token({ audience: 'vault' })), { code: 'unauthenticated' });
    issuer.close();
  });

  it('is trusted while its key exists', { timeout: 120_000 }, async () => {
    const { ask, issuer, advance, problems } = await trusting();
    const first = await token();
    assert.equal(await ask(first), 'shop/web until 60000');
    await rm(directory, { recursive: true });
    await advance(12_000);
    // The file is a real one, and reading it takes as long as it takes.
    while ((await ask(first).catch(() => '')) !== '') await new Promise((resolve) => setImmediate(resolve));
    await assert.rejects(ask(first), /not signed with a key of its issuer/);
    await token();
    await advance(12_000);
    await assert.rejects(ask(first), /not signed with a key of its issuer/);
    assert.deepEqual(problems, []);
    issuer.close();
  });

  it('keeps the last good key when the file is damaged, and reports that once', { timeout: 120_000 }, async () => {
    const good = await token();
    const { ask, issuer, advance, problems } = await trusting();
    await writeFile(join(directory, 'jwks.json'), '{');
    await advance(30_000);
    assert.equal(await ask(good), 'shop/web until 60000');
    // The file is a real one, and reading it takes as long as it takes.
    while (problems.length === 0) await new Promise((resolve) => setImmediate(resolve));
    await advance(30_000);
    assert.deepEqual(problems, [`${join(directory, 'jwks.json')}: is not a key set`]);
    issuer.close();
  });

  it('refuses a key that others can read, a file that is not a key, and invalid names', async () => {
    await token();
    const file = join(directory, 'issuer-key.pem');
    await chmod(file, 0o644);
    await assert.rejects(token(), /may be read by others; set its mode to 0600/);
    await chmod(file, 0o600);
    await writeFile(file, 'none');
    await assert.rejects(token(), /does not hold a private key/);
    await assert.rejects(token({ namespace: 'a/b' }), /cannot be the namespace of an identity/);
  });
});
