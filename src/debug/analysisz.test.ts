import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ShownFinding } from '../analysis/index.ts';
import { inputOfSnapshot } from '../analysis/testing/input.ts';
import { meshOf, resource } from '../model/testing/build.ts';
import { analysisz } from './analysisz.ts';
import { pagePieces } from './json-pieces.ts';
import type { DebugSource } from './types.ts';
import { Viewed, type Viewer } from './viewed.ts';

const route = (namespace: string) =>
  resource('VirtualService', `${namespace}/web`, {
    hosts: ['web.example'],
    http: [{ route: [{ destination: { host: 'none' } }] }],
  });
const problem = { id: 'x', message: 'bad', field: 'spec', origin: { source: 'test', file: 'x.yaml', line: 3 } };
const input = inputOfSnapshot(meshOf([route('shop'), route('guest')]), [problem]);

function pageOf(query: string, viewer: Viewer = 'all') {
  // The page reads nothing else.
  const mesh = new Viewed({ analysisInput: () => input } as unknown as DebugSource, viewer);
  const text = [...pagePieces(analysisz(mesh, new URLSearchParams(query)))].join('');
  return JSON.parse(text) as { findings: ShownFinding[]; omitted: number };
}

const found = (query: string, viewer?: Viewer) =>
  pageOf(query, viewer).findings.map(({ code, resource: { namespace } }) => `${code} ${namespace}`);

test('a finding has its code, resource, place and documentation', () => {
  const { findings, omitted } = pageOf('');
  assert.deepEqual(findings[0], {
    code: 'IST0106',
    level: 'Error',
    name: 'SchemaValidationError',
    message: 'spec: bad',
    resource: { kind: 'document', namespace: '', name: 'x' },
    origin: 'x.yaml:3',
    documentation: 'docs/reference/messages.md#ist0106-schemavalidationerror',
  });
  assert.equal(omitted, 0);
});

test('findings are filtered by namespace, kind and code', () => {
  assert.deepEqual(found('code=IST0101'), ['IST0101 guest', 'IST0101 shop']);
  assert.deepEqual(found('namespace=shop&kind=VirtualService&code=IST0101'), ['IST0101 shop']);
  assert.deepEqual(found('kind=Gateway'), []);
});

test('who sees one namespace gets the findings about its documents', () => {
  assert.deepEqual([...new Set(found('', { namespace: 'guest' }).map((each) => each.slice(8)))], ['guest']);
});
