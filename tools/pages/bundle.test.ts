/** The size and the content of the page application. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { bundlePages } from './bundle.ts';

/** All files together, as they are sent. */
const MAX_BYTES = 120_000;

test('the pages are under 120 kB, compressed, and load nothing from elsewhere', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'meshd-pages-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await bundlePages(folder);
  const names = (await readdir(folder)).sort();
  assert.deepEqual(names, ['app.css', 'app.js', 'index.html']);
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  const bytes = texts.reduce((sum, text) => sum + gzipSync(text).length, 0);
  assert.ok(bytes < MAX_BYTES, `${bytes} bytes`);
  const [css = '', , html = ''] = texts;
  assert.doesNotMatch(css, /@import|url\((?!data:)/);
  for (const [, address] of html.matchAll(/(?:src|href)="([^"]+)"/g))
    assert.match(address ?? '', /^(?:\/(?!\/)|data:)/);
  // The policy of the server lets no script of the document itself run.
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)|<style|\bon[a-z]+=|style=/);
});
