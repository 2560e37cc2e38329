import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { SUPPORTED_FEATURES } from './features.ts';

test('the document lists the features that are claimed', () => {
  const text = readFileSync(new URL('../../../docs/gateway-api.md', import.meta.url), 'utf8');
  const list = text.slice(text.indexOf('Supported features')).split('\n\n')[1] ?? '';
  assert.deepEqual(
    [...list.matchAll(/`([A-Za-z0-9]+)`/g)].map(([, name]) => name),
    SUPPORTED_FEATURES,
  );
});
