import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EncodedResource } from '../../../push/types.ts';
import { resource } from '../../testing/content.ts';
import { namedInNack } from './nack-message.ts';

function clusters(...names: string[]): EncodedResource[] {
  return names.map((name) => resource('cds', name, '1'));
}

function named(message: string, sent: EncodedResource[]): string[] {
  return namedInNack(message, sent).map(({ name }) => name);
}

describe('names in a NACK', () => {
  it('reads names of clusters that contain |, separated by commas', () => {
    const sent = clusters('outbound|80||a.b', 'outbound|80|v1|a.b', 'c', 'd');
    const message =
      'Error adding/updating cluster(s) outbound|80||a.b: Invalid path: /x, y, c: duplicate cluster c found';
    assert.deepEqual(named(message, sent), ['outbound|80||a.b', 'c']);
  });

  it('reads names of listeners, one on each line', () => {
    const sent = clusters('0.0.0.0_80', '0.0.0.0_81', 'virtualInbound');
    const message = 'Error adding/updating listener(s) 0.0.0.0_80: error: a\n0.0.0.0_81: b\n';
    assert.deepEqual(named(message, sent), ['0.0.0.0_80', '0.0.0.0_81']);
  });

  it('does not find a name inside a text or a longer name', () => {
    const sent = clusters('a', 'aa', 'b');
    assert.deepEqual(named('Error adding/updating cluster(s) aa: no route to b, sorry', sent), ['aa']);
  });

  it('finds the resource that a failed validation quotes, not those nested in it', () => {
    const sent = clusters('bad', 'inner', 'other');
    const message =
      'goo.gle/debugstr    \nname: "bad"\nfilters {\n  name: "inner"\n}\n' +
      ': Proto constraint validation failed (ClusterValidationError.X: y)';
    assert.deepEqual(named(message, sent), ['bad']);
    assert.deepEqual(named('goo.gle/debugstr \ncluster_name: "other"\n: Proto constraint', sent), ['other']);
  });

  it('finds nothing in other messages', () => {
    assert.deepEqual(named('Proto constraint validation failed: a: x', clusters('a')), []);
  });

  it('finds a name that contains what follows a name', () => {
    const sent = clusters('a: b', 'a', 'c: d: e');
    assert.deepEqual(named('Error adding/updating cluster(s) a: b: no, c: d: e: no', sent), ['a: b', 'a', 'c: d: e']);
  });

  it('costs a bounded number of comparisons, whatever the message says', () => {
    const sent = clusters(...Array.from({ length: 1000 }, (_, index) => `n${index}`));
    for (const text of [', '.repeat(8000), ': '.repeat(8000), `${'x'.repeat(15_000)}: `, ', : '.repeat(4000)])
      assert.deepEqual(named(`Error adding/updating cluster(s) ${text}, n7: no`, sent), ['n7']);
  });
});
