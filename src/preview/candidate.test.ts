import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { finish } from '../core/slices.ts';
import { documentLimits } from '../resources/index.ts';
import { readCandidate, type StoreReader } from './candidate.ts';

let kept = 0;
const store: StoreReader = {
  documents: () => [],
  documentsOf: () => new Map(),
  get: () => undefined,
  inForceWith: (_source, _key, candidate) => candidate,
  keeps: () => {
    kept++;
    return true;
  },
};
const target = {
  source: 'directory',
  isDirectory: true,
  limits: documentLimits(1),
  rootNamespace: 'mesh-system',
  now: () => 0,
};
const caller = { id: 'a', sees: () => true };
const read = (text: string) =>
  finish(readCandidate({ files: [{ file: 'a.yaml', text }], replaceDirectory: false }, store, target, caller));

const policy = (name: string, more = '') =>
  `apiVersion: security.mesh.io/v1\nkind: PeerAuthentication\nmetadata: {name: ${name}, namespace: shop}\n` +
  `spec: {mtls: {mode: STRICT}}\n${more}`;

describe('the documents of a change', () => {
  it('are refused as soon as more of them differ than can be compared', () => {
    kept = 0;
    const text = Array.from({ length: 3000 }, (_, index) => policy(`p-${index}`)).join('---\n');
    assert.throws(() => read(text), { code: 'resource_exhausted', message: /at most 2000 documents that differ/ });
    assert.equal(kept, 2001);
  });

  it('have a limit of size each, as API servers have', () => {
    const long = policy('long', `# ${'x'.repeat(1_500_000)}\n`);
    assert.throws(() => read(`${policy('a')}---\n${long}`), { code: 'resource_exhausted', message: /1500000/ });
    const half = `# ${'x'.repeat(1_000_000)}\n`;
    assert.equal(read(`${policy('a', half)}---\n${policy('b', half)}`).outcomes.length, 2);
  });
});
