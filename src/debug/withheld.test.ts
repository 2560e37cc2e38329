import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonPieces } from './json-pieces.ts';
import type { DebugSource } from './types.ts';
import { Viewed } from './viewed.ts';
import { withheldz } from './withheld.ts';

const RESOURCE = {
  type: 'cds',
  name: 'web',
  versions: new Set(['v2']),
  acceptedVersion: 'v1',
  proxy: 'proxy-1',
  message: 'no good',
  sinceMs: 0,
  view: 'outbound:shop/:1',
  namespace: 'shop',
  documents: ['DestinationRule/shop/web'],
} as const;

test('the page of withheld resources shows what Envoy rejected, and what is in force instead', () => {
  const source = { withheld: () => [RESOURCE] } as Partial<DebugSource> as DebugSource;
  const page = (viewer: 'all' | { namespace: string }) =>
    JSON.parse([...jsonPieces(withheldz(new Viewed(source, viewer)))].join(''));
  const { type, name, view, acceptedVersion, proxy, message, documents: madeBy } = RESOURCE;
  const since = '1970-01-01T00:00:00.000Z';
  const entry = { type, name, view, version: 'v2', acceptedVersion, proxy, message, since, madeBy };
  assert.deepEqual(page('all'), { withheld: [entry] });
  assert.deepEqual(page({ namespace: 'shop' }), { withheld: [entry] });
  assert.deepEqual(page({ namespace: 'other' }), { withheld: [] });
});
