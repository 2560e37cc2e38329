import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import type { ResourceEvent } from '../../resources/index.ts';
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
