import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { byXdsType } from '../../core/xds-types.ts';
import { contentVersion, emptyBundle, encodeResource, nextBundle } from '../bundles/index.ts';
import type { Bundle, EncodedResource, Parts } from '../types.ts';
import { type ContentHolder, EarlierContents } from './earlier-contents.ts';

function cluster(name: string, content: string | Buffer): EncodedResource {
  const message = Buffer.from(content);
  return encodeResource('cds', name, contentVersion(message), message, []);
}

const after = (bundle: Bundle, ...resources: EncodedResource[]): Bundle =>
  nextBundle(bundle, new Map(resources.map((resource) => [resource.name, resource])));

const partsOf = (clusters: Bundle, secrets = emptyBundle('sds', 'view')): Parts =>
  byXdsType((type) => (type === 'cds' ? [clusters] : type === 'sds' ? [secrets] : []));

const holder = (parts: Parts, id = 'a', namespace = 'demo'): ContentHolder => ({
  node: { id, namespace },
  content: () => parts,
});

/** Its time is that of the test, minutes. */
function kept(maxBytes?: number) {
  let minutes = 0;
  const earlier = new EarlierContents({
    wall: () => minutes,
    now: () => 0,
    later: () => ({ cancel() {} }),
    ...(maxBytes !== undefined && { maxBytes }),
  });
  return {
    earlier,
    at: (time: number, ...holders: ContentHolder[]) => {
      minutes = time;
      return earlier.take(holders);
    },
    check: (...holders: ContentHolder[]) => earlier.check(holders),
  };
}

const node = { id: 'a', namespace: 'demo' };

describe('what proxies should have had', () => {
  it('is kept for the last six moments', async () => {
    const { earlier, at } = kept();
    let bundle = emptyBundle('cds', 'view');
    for (let time = 1; time <= 8; time++) {
      bundle = after(bundle, cluster('x', `version ${time}`));
      await at(time, holder(partsOf(bundle)));
    }
    assert.deepEqual(earlier.moments(node), [8, 7, 6, 5, 4, 3]);
    const [then] = earlier.parts(node, 3, 'cds') ?? [];
    assert.equal(then?.get('x')?.version, cluster('x', 'version 3').version);
    assert.equal(earlier.parts(node, 2, 'cds'), undefined);
  });

  it('is kept by id and namespace, for the moments at which the proxy was connected', async () => {
    const { earlier, at } = kept();
    const parts = partsOf(after(emptyBundle('cds', 'view'), cluster('x', 'one')));
    await at(1, holder(parts, 'b'));
    await at(2, holder(parts), holder(parts, 'b'));
    assert.deepEqual(earlier.moments(node), [2]);
    assert.deepEqual(earlier.moments({ id: 'b', namespace: 'demo' }), [2, 1]);
    assert.deepEqual(earlier.moments({ id: 'a', namespace: 'other' }), []);
  });

  it('has no secrets', async () => {
    const { earlier, at } = kept();
    const secrets = after(emptyBundle('sds', 'view'), cluster('key', 'secret'));
    await at(1, holder(partsOf(emptyBundle('cds', 'view'), secrets)));
    assert.deepEqual(earlier.parts(node, 1, 'sds'), []);
  });

  it('drops the oldest moments when more than the limit was replaced or removed', async () => {
    const { earlier, at } = kept(2500);
    let bundle = after(emptyBundle('cds', 'view'), cluster('same', Buffer.alloc(10_000)));
    for (let time = 1; time <= 4; time++) {
      bundle = after(bundle, cluster('x', Buffer.alloc(1000, time)));
      await at(time, holder(partsOf(bundle)));
    }
    assert.deepEqual(earlier.moments(node), [4, 3, 2], 'two replaced versions are within the limit, three are not');
    await at(5);
    await at(6, holder(partsOf(bundle)));
    assert.deepEqual(earlier.moments(node), [6], 'the proxies that left had everything for themselves');
  });

  it('drops even the newest moment when more than the limit was replaced since', async () => {
    const { earlier, at, check } = kept(2500);
    const names = ['x', 'y', 'z'];
    const version = (number: number) => names.map((name) => cluster(name, Buffer.alloc(1000, number)));
    const bundle = after(emptyBundle('cds', 'view'), ...version(1));
    await at(1, holder(partsOf(bundle)));
    await check(holder(partsOf(after(bundle, ...version(2).slice(0, 2)))));
    assert.deepEqual(earlier.moments(node), [1]);
    await check(holder(partsOf(after(bundle, ...version(3)))));
    assert.deepEqual(earlier.moments(node), []);
  });
});
