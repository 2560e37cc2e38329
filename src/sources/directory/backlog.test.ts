import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock.ts';
import { Slicer } from '../../core/slicer.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import type { ResourceEvent } from '../../resources/index.ts';
import { ReadingShares } from '../pacing/reading-shares.ts';
import { FileBacklog } from './backlog.ts';
import { createDirectorySource } from './directory.ts';

/** A VirtualService that takes longer to read than a turn lasts: 1,000 expressions of 1,000 steps. */
function costly(name: string): string {
  const expression = (index: number) => `${'a'.repeat(980)}${name}${index}`.slice(-990);
  const matches = Array.from({ length: 1000 }, (_, index) => `    - uri: {regex: "${expression(index)}"}\n`);
  return [
    'apiVersion: networking.mesh.io/v1alpha3\nkind: VirtualService\n',
    `metadata:\n  name: ${name}\n  namespace: flood\nspec:\n  hosts: [web]\n  http:\n`,
    `  - route:\n    - destination: {host: web}\n    match:\n${matches.join('')}`,
  ].join('');
}

const SERVICE = `apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n`;

async function follow(context: TestContext) {
  const base = await mkdtemp(join(tmpdir(), 'meshd-backlog-'));
  const dir = join(base, 'config');
  await mkdir(dir);
  await writeFile(join(dir, 'first.yaml'), SERVICE.replace('name: web', 'name: first'));
  const note = (): void => {};
  const log = { debug: note, info: note, warn: note, error: note };
  const source = createDirectorySource({ dir, cluster: 'c', log, clock: systemClock, resyncMs: 0 });
  context.after(async () => {
    await source.close();
    await rm(base, { recursive: true, force: true });
  });
  const batches: (readonly ResourceEvent[])[] = [];
  source.start({ apply: (events) => void batches.push(events), replace: () => {}, changing: () => {} });
  await source.synced;
  batches.length = 0;
  return { base, dir, batches };
}

function namesIn(events: readonly ResourceEvent[]): string[] {
  return events.flatMap((event) => (event.type === 'set' ? event.resource.meta.name : []));
}

test('a namespace that floods a directory delays the file of another one by one of its files at most', async (context) => {
  const { base, dir, batches } = await follow(context);
  const flood = Array.from({ length: 5 }, (_, index) => `a${index}`);
  const staging = join(base, 'staging');
  await mkdir(staging);
  for (const name of flood) await writeFile(join(staging, `${name}.yaml`), costly(name));
  await writeFile(join(staging, 'web.yaml'), SERVICE);
  // All at once, the costly ones first.
  await Promise.all([...flood, 'web'].map((name) => rename(join(staging, `${name}.yaml`), join(dir, `${name}.yaml`))));
  await waitUntil(() => batches.some((events) => namesIn(events).includes('web')));
  const until = batches.findIndex((events) => namesIn(events).includes('web'));
  const before = batches.slice(0, until + 1).flatMap(namesIn);
  assert.ok(before.length <= 3, `web came after ${before.join()}`);
  await waitUntil(() => new Set(batches.flatMap(namesIn)).size === flood.length + 1);
});

const policy = (name: string, namespace = 'shop') =>
  `apiVersion: security.mesh.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: ${name}, namespace: ${namespace}}\n`;

test('a policy is in force before the costly files of its namespace that changed with it', async (context) => {
  const { base, dir, batches } = await follow(context);
  const flood = Array.from({ length: 5 }, (_, index) => `a${index}`);
  const staging = join(base, 'staging');
  await mkdir(staging);
  for (const name of flood) await writeFile(join(staging, `${name}.yaml`), costly(name));
  await writeFile(join(staging, 'deny.yaml'), policy('deny', 'flood'));
  for (const name of [...flood, 'deny']) await rename(join(staging, `${name}.yaml`), join(dir, `${name}.yaml`));
  await waitUntil(() => batches.some((events) => namesIn(events).includes('deny')));
  const before = batches.flatMap(namesIn);
  assert.ok(before.indexOf('deny') <= 2, `deny came after ${before.join()}`);
});

/** A backlog of files that are all new, in a directory with these, and a clock that only the test moves. */
async function newFiles(context: TestContext, files: Readonly<Record<string, string>>) {
  const dir = await mkdtemp(join(tmpdir(), 'meshd-backlog-'));
  context.after(() => rm(dir, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  const clock = { now: 0 };
  const shares = new ReadingShares(() => clock.now);
  const known = new Map<string, string>();
  const backlog = new FileBacklog({ shares, namespaceOf: (path) => known.get(path), kindsOf: () => [] });
  const change = (name: string) => {
    const file = { signature: name, size: 1 } as never;
    return backlog.add([{ path: join(dir, name), file, eventTime: clock.now }], new Slicer(() => clock.now));
  };
  const names = () => {
    const read: string[] = [];
    for (let next = backlog.next(); next !== undefined; next = backlog.next()) {
      read.push(next.change.path.slice(dir.length + 1));
      backlog.charge(next, 1);
    }
    return read;
  };
  return { dir, clock, shares, known, backlog, change, names };
}

test('a file with policies that changes while it waits is read after those that changed before', async (context) => {
  const { change, names } = await newFiles(context, { 'a.yaml': policy('a'), 'b.yaml': policy('b') });
  await change('a.yaml');
  await change('b.yaml');
  await change('a.yaml');
  assert.deepEqual(names(), ['b.yaml', 'a.yaml']);
});

test('a file with policies is read while its namespace rests', async (context) => {
  const { shares, change, names } = await newFiles(context, { 'web.yaml': SERVICE, 'deny.yaml': policy('deny') });
  const route = 'kind: VirtualService\nmetadata: {name: web, namespace: shop}\n';
  const mixed = await newFiles(context, { 'route.yaml': route, 'mixed.yaml': `${route}---\n${policy('deny')}` });
  for (const each of [shares, mixed.shares]) each.charge({ namespace: 'shop', readingClass: 'other' }, 1000);
  await change('web.yaml');
  await change('deny.yaml');
  assert.deepEqual(names(), ['deny.yaml', 'web.yaml']);
  await mixed.change('route.yaml');
  await mixed.change('mixed.yaml');
  assert.deepEqual(mixed.names(), ['mixed.yaml']);
});

test('the namespace that a file has pays for it, not the one that it mentions', async (context) => {
  const text = '# namespace: victim\nmetadata: {namespace: flood, annotations: {namespace: victim}}\n';
  const { shares, known, backlog, change } = await newFiles(context, { 'a.yaml': text, 'b.yaml': 'namespace: victim' });
  for (const [name, namespace] of [['a.yaml', 'flood'] as const, ['b.yaml', undefined] as const]) {
    await change(name);
    const next = backlog.next();
    assert.ok(next !== undefined);
    if (namespace !== undefined) known.set(next.change.path, namespace);
    backlog.charge(next, 1000);
  }
  assert.equal(shares.restOf('victim'), 0);
  assert.ok(shares.restOf('flood') > 0);
});

test('a pipe in place of a file does not block', async (context) => {
  const { dir, change, names } = await newFiles(context, {});
  execFileSync('mkfifo', [join(dir, 'pipe.yaml')]);
  await change('pipe.yaml');
  assert.deepEqual(names(), ['pipe.yaml']);
});
