import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { parseResource } from '../../src/resources/parsing/parse.ts';
import { tempDir } from '../../test/harness/index.ts';
import { freePlaces, placesOf, SAMPLE_BASE, samplePlaces } from './ports.ts';
import { editFile, movePorts, SAMPLES } from './samples.ts';

const FILES = readdirSync(SAMPLES).map((name) => ({ name, text: readFileSync(join(SAMPLES, name), 'utf8') }));

test('every document of the samples is taken', () => {
  assert.ok(FILES.length > 0);
  for (const { name, text } of FILES) {
    for (const [index, document] of parseAllDocuments(text).entries()) {
      const parsed = parseResource(document.toJS(), { source: 'test', file: name }, () => undefined, { index });
      assert.ok('resource' in parsed, `${name}: ${JSON.stringify(parsed)}`);
    }
  }
});

test('the samples name no port that the demo does not know', () => {
  const known = new Set(Object.values(placesOf(SAMPLE_BASE)).map(({ port }) => port));
  for (const { name, text } of FILES) {
    for (const [port] of text.matchAll(/\b180\d\d\b/g)) assert.ok(known.has(Number(port)), `${name}: ${port}`);
  }
});

test('moving ports touches nothing but ports', () => {
  assert.equal(movePorts('number: 18082 # not 1808 or 180821', 20_100), 'number: 20182 # not 1808 or 180821');
  assert.equal(movePorts('127.0.0.1:18091', 21_000), '127.0.0.1:21091');
});

test('an edit replaces every occurrence, and refuses to do nothing', async (context) => {
  const file = join(await tempDir(context), 'a.yaml');
  await writeFile(file, 'weight: 1\nweight: 1\n');
  await editFile(file, 'weight: 1', 'weight: 2');
  assert.equal(await readFile(file, 'utf8'), 'weight: 2\nweight: 2\n');
  await assert.rejects(editFile(file, 'weight: 1', 'weight: 3'), /does not hold/);
});

test('ports in use: the samples say which, a copy moves elsewhere', async (context) => {
  // Taken by this test, unless something else on this machine has it already: both are "in use".
  const server = createServer();
  const { gateway } = placesOf(SAMPLE_BASE);
  await new Promise<void>((resolve) => {
    server.once('error', () => resolve());
    server.listen(gateway.port, gateway.address, resolve);
  });
  context.after(() => void server.close());
  await assert.rejects(samplePlaces(context), /^Error: 127\.0\.\d+\.\d+:\d+ \(.+\) is in use$/);
  const first = await freePlaces(context);
  const second = await freePlaces(context);
  assert.notEqual(first.base, SAMPLE_BASE);
  assert.notEqual(second.base, first.base);
});
