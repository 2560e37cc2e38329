import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EncodedResource } from '../../../push/types.ts';
import { resource } from '../../testing/content.ts';
import { MAX_NAMED_IN_A_ROW, MAX_QUARANTINED, MAX_SEARCH_RESPONSES, Rejections } from './rejection.ts';

function clusters(...names: string[]): EncodedResource[] {
  return names.map((name) => resource('cds', name, '1'));
}

/** What a simulated proxy was sent and has, in the end. */
interface Found {
  readonly quarantined: string[];
  readonly served: string[];
  readonly responses: number;
  /** Resources in all responses. */
  readonly sent: number;
  readonly overwhelmed: boolean;
}

/** Simulates a proxy that rejects every response with one of `bad` in it. */
function search(
  names: string[],
  bad: ReadonlySet<string>,
  message: (sent: readonly string[]) => string = () => 'no',
): Found {
  const rejections = new Rejections();
  const has = new Set<string>();
  let [responses, resources] = [0, 0];
  for (;;) {
    const open = rejections.searching ? rejections.suspects() : clusters(...names);
    const sent = open.filter((one) => !has.has(one.name) && !rejections.isHeldBack(one.name, one.version));
    if (sent.length === 0) {
      if (!rejections.searching) break;
      rejections.next();
      continue;
    }
    responses++;
    resources += sent.length;
    assert.ok(responses < 10_000, 'never ends');
    const refused = sent.flatMap(({ name }) => (bad.has(name) ? [name] : []));
    if (refused.length === 0) {
      for (const { name } of sent) has.add(name);
      rejections.acknowledged(sent.length);
    } else if (rejections.rejected(message(refused), sent).everything) break;
  }
  return {
    quarantined: [...rejections.quarantined.keys()].sort(),
    served: [...has].sort(),
    responses,
    sent: resources,
    overwhelmed: rejections.overwhelmed,
  };
}

describe('the search for rejected resources', () => {
  const many = Array.from({ length: 1000 }, (_, index) => `n${String(index).padStart(4, '0')}`);

  it('quarantines a single resource immediately', () => {
    const found = search(['a'], new Set(['a']));
    assert.deepEqual([found.quarantined, found.served, found.responses], [['a'], [], 1]);
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

  it('quarantines what a proxy names, and sends the rest once', () => {
    const names = (sent: readonly string[]) =>
      `Error adding/updating cluster(s) ${sent.map((name) => `${name}: no`).join(', ')}`;
    const found = search(many, new Set(many.slice(100, 200)), names);
    assert.deepEqual([found.quarantined, found.responses], [many.slice(100, 200), 2]);
  });
});

describe('a proxy that rejects everything', () => {
  const many = Array.from({ length: 4000 }, (_, index) => `n${String(index).padStart(4, '0')}`);

  it('is sent it about twice, in a bounded number of responses, and little is kept', () => {
    const found = search(many, new Set(many));
    assert.equal(found.overwhelmed, true);
    assert.ok(found.responses <= MAX_SEARCH_RESPONSES, `${found.responses} responses`);
    assert.ok(found.sent < 2.2 * many.length, `${found.sent} resources`);
    assert.ok(found.quarantined.length <= MAX_QUARANTINED);
  });

  it('is not sent the rest over and over when it names one at a time', () => {
    const found = search(many, new Set(many), ([name]) => `Error adding/updating cluster(s) ${name}: no`);
    assert.equal(found.overwhelmed, true);
    assert.equal(found.responses, MAX_NAMED_IN_A_ROW);
  });

  it('is overwhelmed at once when it names more than can be withheld one by one', () => {
    const names = (sent: readonly string[]) => sent.map((name) => `name: "${name}"`).join('\n');
    const found = search(many, new Set(many), names);
    assert.deepEqual([found.overwhelmed, found.responses], [true, 1]);
    assert.ok(found.quarantined.length <= MAX_QUARANTINED);
  });

  it('is not searched again, and is sent everything once more when it accepts something', () => {
    const rejections = new Rejections();
    const all = clusters(...many);
    while (!rejections.overwhelmed) rejections.rejected('no', rejections.searching ? rejections.suspects() : all);
    assert.deepEqual([rejections.count > 3900, rejections.searching, rejections.empty], [true, false, false]);
    assert.equal(rejections.rejected('no', clusters('a', 'b')).everything, true);
    assert.equal(rejections.searching, false);
    assert.equal(rejections.acknowledged(0), false, 'an empty response shows nothing');
    assert.equal(rejections.acknowledged(1), true);
    assert.equal(rejections.rejected('no', all).everything, true);
    const later = Array.from({ length: 8 }, () => rejections.acknowledged(1));
    assert.deepEqual(later.indexOf(true), 7, 'the next time later');
    assert.equal(rejections.acknowledged(4000), false);
    assert.deepEqual([rejections.empty, rejections.count], [true, 0]);
  });
});

it('a new version of a quarantined resource is tried, and the old one forgotten', () => {
  const rejections = new Rejections();
  rejections.rejected('no good', clusters('a'));
  const next = resource('cds', 'a', '2');
  assert.ok(rejections.isHeldBack('a', 'v:1'));
  assert.ok(!rejections.isHeldBack('a', next.version));
  rejections.prune(() => next);
  assert.ok(rejections.empty);
});
