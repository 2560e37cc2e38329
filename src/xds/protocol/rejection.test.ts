import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EncodedResource } from '../../push/types.ts';
import { resource } from '../testing/content.ts';
import { MAX_SEARCH_RESPONSES, namedInNack, Rejections } from './rejection.ts';

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
});

/**
 * Simulates a proxy that rejects every response with one of `bad` in it. Returns the quarantined names and the number
 * of responses.
 */
function search(
  names: string[],
  bad: ReadonlySet<string>,
): { quarantined: string[]; served: string[]; responses: number } {
  const rejections = new Rejections();
  const has = new Set<string>();
  let responses = 0;
  for (;;) {
    const sent = clusters(...names).filter(
      (one) => !has.has(one.name) && !rejections.isHeldBack(one.name, one.version),
    );
    if (sent.length === 0) {
      if (!rejections.searching) break;
      rejections.acknowledged();
      continue;
    }
    responses++;
    assert.ok(responses < 10_000, 'never ends');
    if (sent.some(({ name }) => bad.has(name))) rejections.rejected('no good', sent);
    else {
      for (const { name } of sent) has.add(name);
      rejections.acknowledged();
    }
  }
  return { quarantined: [...rejections.quarantined.keys()].sort(), served: [...has].sort(), responses };
}

describe('the search for rejected resources', () => {
  const many = Array.from({ length: 1000 }, (_, index) => `n${String(index).padStart(4, '0')}`);

  it('quarantines a single resource immediately', () => {
    assert.deepEqual(search(['a'], new Set(['a'])), { quarantined: ['a'], served: [], responses: 1 });
  });

  it('finds one among a thousand by halving, and sends the rest', () => {
    const found = search(many, new Set(['n0617']));
    assert.deepEqual(found.quarantined, ['n0617']);
    assert.equal(found.served.length, 999);
    assert.ok(found.responses <= 22, `${found.responses} responses`);
  });

  it('finds several', () => {
    const found = search(many.slice(0, 16), new Set(['n0001', 'n0002', 'n0014']));
    assert.deepEqual(found.quarantined, ['n0001', 'n0002', 'n0014']);
    assert.equal(found.served.length, 13);
  });

  it('gives up on a proxy that rejects everything', () => {
    const found = search(many, new Set(many));
    assert.ok(found.responses <= MAX_SEARCH_RESPONSES + 1, `${found.responses} responses`);
    assert.equal(found.quarantined.length, 1000);
  });

  it('tries a new version of a quarantined resource, and forgets the old one', () => {
    const rejections = new Rejections();
    rejections.rejected('no good', clusters('a'));
    const next = resource('cds', 'a', '2');
    assert.ok(rejections.isHeldBack('a', 'v:1'));
    assert.ok(!rejections.isHeldBack('a', next.version));
    rejections.prune(() => next);
    assert.ok(rejections.empty);
  });
});
