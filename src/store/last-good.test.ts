import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tempDir } from '../../test/harness/files.ts';
import { parseResource } from '../resources/index.ts';
import { type AnyResource, keyOf } from '../resources/kinds/types.ts';
import { openLastGood } from './last-good.ts';

interface Fields {
  readonly file?: string;
  readonly namespace?: string;
  readonly metadata?: object;
}

function policy(
  name: string,
  spec: object = { action: 'DENY', rules: [{}] },
  fields: Fields = {},
  kind = 'AuthorizationPolicy',
): AnyResource {
  const { file = '/config/a.yaml', namespace = 'shop', metadata = {} } = fields;
  const group = kind.startsWith('handler') ? 'config.istio.io/v1alpha2' : 'security.istio.io/v1beta1';
  const document = { apiVersion: group, kind, metadata: { name, namespace, ...metadata }, spec };
  const parsed = parseResource(document, { source: 'directory', file, line: 3 }, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}

async function open(directory: string, limits?: { documents: number; bytes: number }) {
  const warnings: string[] = [];
  const store = await openLastGood({
    directory,
    warn: (message) => void warnings.push(message),
    later: () => {},
    ...(limits === undefined ? {} : { limits }),
  });
  return { store, warnings };
}

/** A directory with these documents, as an earlier run of the program leaves it. */
async function stateOf(t: TestContext, ...resources: readonly AnyResource[]): Promise<string> {
  const directory = join(await tempDir(t), 'state');
  const { store, warnings } = await open(directory);
  for (const resource of resources) store.of('directory').save(resource);
  await store.written();
  assert.deepEqual(warnings, []);
  return directory;
}

test('saved documents are read again after a restart, and only their owner can read the files', async (t) => {
  const jwt = {
    issuer: 'a',
    jwksUri: 'https://a.com/keys',
    timeout: '1.5s',
    fromHeaders: [{ name: 'x', prefix: 'y ' }],
  };
  const metadata = {
    labels: { istio: 'a', b: 'c' },
    annotations: { 'networking.istio.io/a': 'b' },
    creationTimestamp: '2020-09-01T12:00:00Z',
  };
  const resources = [
    policy('deny', {
      action: 'DENY',
      selector: { matchLabels: { istio: 'gateway' } },
      rules: [{ to: [{ operation: { paths: ['/a*'] } }] }],
    }),
    policy(
      'strict',
      {
        mtls: { mode: 'STRICT' },
        selector: { matchLabels: { timeout: '1' } },
        portLevelMtls: { 80: { mode: 'DISABLE' } },
      },
      { metadata },
      'PeerAuthentication',
    ),
    policy('tokens', { jwtRules: [jwt] }, { file: '/config/b.yaml' }, 'RequestAuthentication'),
    policy(
      'outside',
      { adapter: 'a', connection: { address: 'a:1', timeout: '1.5s' }, params: { timeout: 5, nested: { timeout: 7 } } },
      {},
      'handler',
    ),
  ];
  const directory = await stateOf(t, ...resources);
  const { store, warnings } = await open(directory);
  for (const resource of resources) {
    const loaded = store.of('directory').load(keyOf(resource));
    assert.deepEqual(
      [loaded?.fingerprint, loaded?.meta, loaded?.content, loaded?.origin.file],
      [resource.fingerprint, resource.meta, resource.content, resource.origin.file],
    );
  }
  assert.deepEqual(store.of('directory').ofFile('/config/b.yaml'), ['RequestAuthentication/shop/tokens']);
  assert.deepEqual(store.of('directory').ofFile('/config/c.yaml'), []);
  assert.equal(store.of('directory').load('AuthorizationPolicy/shop/other'), undefined);
  assert.deepEqual(warnings, []);
  assert.equal((await stat(directory)).mode & 0o777, 0o700);
  for (const name of await readdir(directory)) assert.equal((await stat(join(directory, name))).mode & 0o777, 0o600);
});

test('each source has its own last good version of a policy', async (t) => {
  const directory = join(await tempDir(t), 'state');
  const { store } = await open(directory);
  const versions = { directory: 'ALLOW', api: 'DENY' } as const;
  for (const [source, action] of Object.entries(versions)) store.of(source).save(policy('a', { action, rules: [{}] }));
  await store.written();
  const { store: again } = await open(directory);
  for (const [source, action] of Object.entries(versions)) {
    const loaded = again.of(source).load('AuthorizationPolicy/shop/a');
    assert.deepEqual([loaded?.origin.source, loaded?.content], [source, { action, rules: [{}] }]);
    assert.deepEqual(again.of(source).ofFile('/config/a.yaml'), ['AuthorizationPolicy/shop/a']);
  }
  assert.equal(again.of('other').load('AuthorizationPolicy/shop/a'), undefined);
  assert.deepEqual(again.of('other').ofFile('/config/a.yaml'), []);
  again.of('api').forget('AuthorizationPolicy/shop/a');
  again.retain(new Map([['directory', ['AuthorizationPolicy/shop/a']]]));
  await again.written();
  assert.equal((await readdir(directory)).length, 1);
  assert.ok((await open(directory)).store.of('directory').load('AuthorizationPolicy/shop/a'));
});

test('the latest version counts; versions of deleted and unlisted documents are dropped', async (t) => {
  const directory = await stateOf(t, policy('a'), policy('b'), policy('c'));
  const { store } = await open(directory);
  store.of('directory').save(policy('a', { rules: [{ to: [{ operation: { paths: ['/new'] } }] }] }));
  store.of('directory').forget('AuthorizationPolicy/shop/b');
  assert.equal(store.of('directory').load('AuthorizationPolicy/shop/b'), undefined);
  await store.written();
  assert.equal((await readdir(directory)).length, 2);
  store.retain(new Map([['directory', ['AuthorizationPolicy/shop/a']]]));
  await store.written();
  assert.equal((await readdir(directory)).length, 1);
  const again = await open(directory);
  assert.match(JSON.stringify(again.store.of('directory').load('AuthorizationPolicy/shop/a')?.content), /"\/new"/);
});

test('a version that is already stored is not written again', async (t) => {
  const directory = await stateOf(t, policy('a'));
  const [name = ''] = await readdir(directory);
  const before = await stat(join(directory, name), { bigint: true });
  const { store } = await open(directory);
  store.of('directory').save(policy('a'));
  await store.written();
  const after = await stat(join(directory, name), { bigint: true });
  assert.deepEqual([await readdir(directory), after.ino, after.ctimeNs], [[name], before.ino, before.ctimeNs]);
});

/** Ways in which an entry may be damaged; it is then ignored. */
const FAULTS: Readonly<Record<string, readonly [(file: string) => Promise<unknown>, RegExp]>> = {
  'half written': [
    async (file) => writeFile(file, (await readFile(file)).subarray(0, 40)),
    /content does not match its name/,
  ],
  empty: [(file) => writeFile(file, ''), /content does not match its name/],
  changed: [
    async (file) => writeFile(file, (await readFile(file, 'utf8')).replace('DENY', 'ALLOW')),
    /content does not match/,
  ],
  'readable by others': [(file) => chmod(file, 0o644), /is accessible to other users/],
  'a directory': [
    async (file) => {
      await rm(file);
      await mkdir(file);
    },
    /is not a regular file/,
  ],
  'a link': [
    async (file) => {
      await rename(file, join(file, '..', '..', 'elsewhere'));
      await symlink('../elsewhere', file);
    },
    /ELOOP/,
  ],
  'too large': [(file) => writeFile(file, Buffer.alloc(600_000)), /has 600000 bytes, more than 524288 bytes/],
};

for (const [what, [spoil, says]] of Object.entries(FAULTS)) {
  test(`an entry that is ${what} is ignored and deleted`, async (t) => {
    const directory = await stateOf(t, policy('a'), policy('b', undefined, { file: '/config/b.yaml' }));
    const names = await readdir(directory);
    const texts = await Promise.all(names.map((name) => readFile(join(directory, name), 'utf8')));
    const name = names[texts.findIndex((text) => text.includes('"name":"a"'))] ?? '';
    await spoil(join(directory, name));
    const { store, warnings } = await open(directory);
    assert.equal(store.of('directory').load('AuthorizationPolicy/shop/a'), undefined);
    assert.match(warnings[0] ?? '', says);
    assert.deepEqual(store.of('directory').ofFile('/config/a.yaml'), []);
    assert.ok(store.of('directory').load('AuthorizationPolicy/shop/b'));
  });
}

test('an entry under the name of another key is not used', async (t) => {
  const directory = await stateOf(t, policy('a'), policy('b'));
  const [one = '', two = ''] = await readdir(directory);
  await rename(join(directory, one), join(directory, `${two.slice(0, 32)}${one.slice(32)}`));
  await rm(join(directory, two));
  const { store } = await open(directory);
  for (const name of ['a', 'b'])
    assert.equal(store.of('directory').load(`AuthorizationPolicy/shop/${name}`), undefined);
});

test('files that a crash left incomplete are removed, and the newer of two versions is used', async (t) => {
  const directory = await stateOf(t, policy('a'));
  await writeFile(join(directory, '.new-x'), 'half');
  const [old = ''] = await readdir(directory).then((names) => names.filter((name) => name !== '.new-x'));
  const kept = await readFile(join(directory, old));
  const { store } = await open(directory);
  store.of('directory').save(policy('a', { rules: [{ to: [{ operation: { paths: ['/new'] } }] }] }));
  await store.written();
  await writeFile(join(directory, old), kept, { mode: 0o600 });
  const { utimes } = await import('node:fs/promises');
  await utimes(join(directory, old), 1, 1);
  const again = await open(directory);
  assert.match(JSON.stringify(again.store.of('directory').load('AuthorizationPolicy/shop/a')?.content), /"\/new"/);
  assert.equal((await readdir(directory)).includes('.new-x'), false);
});

const UNUSABLE: Readonly<Record<string, readonly [(directory: string) => Promise<unknown>, RegExp]>> = {
  'writable by others': [
    async (directory) => {
      await mkdir(directory);
      await chmod(directory, 0o777);
    },
    /may be written by others; set its mode to 0700/,
  ],
  'a file': [(directory) => writeFile(directory, ''), /EEXIST|is no folder/],
  'a link': [(directory) => symlink('..', directory), /is not a directory/],
};

for (const [what, [prepare, says]] of Object.entries(UNUSABLE)) {
  test(`a directory that is ${what} is one warning, and remembers nothing`, async (t) => {
    const directory = join(await tempDir(t), 'state');
    await prepare(directory);
    const { store, warnings } = await open(directory);
    store.of('directory').save(policy('a'));
    await store.written();
    assert.equal(store.of('directory').load('AuthorizationPolicy/shop/a'), undefined);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? '', says);
    assert.match(warnings[0] ?? '', /after a restart, refused policies deny what they cover/);
  });
}

test('a directory that others can read becomes private', async (t) => {
  const directory = await stateOf(t, policy('a'));
  await chmod(directory, 0o755);
  const { store } = await open(directory);
  assert.ok(store.of('directory').load('AuthorizationPolicy/shop/a'));
  assert.equal((await stat(directory)).mode & 0o777, 0o700);
});

test('documents beyond the quota are not kept, nor are older versions of them; one log line says so', async (t) => {
  const directory = join(await tempDir(t), 'state');
  const { store, warnings } = await open(directory, { documents: 8, bytes: 1_000_000 });
  const names = ['a', 'b', 'c', 'd'];
  for (const name of names) store.of('directory').save(policy(name));
  await store.written();
  // A quarter of the directory is what one namespace gets; others have theirs still.
  assert.equal((await readdir(directory)).length, 2);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /namespace shop has reached its limit of 2 documents or 250000 bytes/);
  for (const namespace of ['n1', 'n2', 'n3', 'n4', 'n5', 'n6', 'n7'])
    store.of('directory').save(policy('a', undefined, { namespace }));
  await store.written();
  assert.equal((await readdir(directory)).length, 8);
  assert.match(warnings.at(-1) ?? '', /the directory has reached its limit of 8 documents or 1000000 bytes/);
  // A version that has no room takes the older one with it.
  const paths = Array.from({ length: 300 }, (_, index) => `/${'x'.repeat(1900)}${index}`);
  store.of('directory').save(policy('a', { rules: [{ to: [{ operation: { paths } }] }] }));
  await store.written();
  assert.equal(store.of('directory').load('AuthorizationPolicy/shop/a'), undefined);
  assert.match(warnings.at(-1) ?? '', /more than 524288 bytes/);
});

test('a directory that disappears while the program runs is logged once', async (t) => {
  const directory = await stateOf(t, policy('a'));
  const { store, warnings } = await open(directory);
  await rm(directory, { recursive: true });
  for (const name of ['b', 'c']) store.of('directory').save(policy(name));
  await store.written();
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /cannot keep AuthorizationPolicy\/shop\/b \(ENOENT\)/);
});

test('documents of the policy component do not displace those of the security kinds', async (t) => {
  const { store, warnings } = await open(join(await tempDir(t), 'state'), { documents: 4, bytes: 1_000_000 });
  const handler = (name: string) => policy(name, { compiledAdapter: 'denier' }, { namespace: `of-${name}` }, 'handler');
  for (const name of ['a', 'b', 'c']) store.of('directory').save(handler(name));
  store.of('directory').save(policy('deny'));
  await store.written();
  assert.match(warnings.join(), /the policy component has reached its limit of 2 documents or 500000 bytes/);
  assert.equal(store.of('directory').load('handler/of-c/c'), undefined);
  assert.ok(store.of('directory').load('AuthorizationPolicy/shop/deny') !== undefined);
});
