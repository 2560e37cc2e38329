import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { EncodedResource } from '../types.ts';
import { emptyBundle } from './bundle.ts';
import { BundleTemplates, type UnitContents } from './bundle-templates.ts';
import { contentVersion, encodeResource } from './encode-resource.ts';

function resource(name: string, content: string): EncodedResource {
  const message = Buffer.from(content);
  return encodeResource('cds', name, contentVersion(message), message, []);
}

const [a, b, changed] = [resource('a', '1'), resource('b', '1'), resource('a', '2')];

function units(...each: readonly (readonly [string, readonly EncodedResource[] | undefined])[]): UnitContents {
  return new Map(each);
}

describe('first bundle of a view', () => {
  it('has the resources of its units, and nothing of the template', () => {
    const precedents = new BundleTemplates();
    const begin = (contents: UnitContents) => precedents.begin('outbound', emptyBundle('cds', 'w'), contents);
    const unit = [a];
    begin(units(['one', unit], ['two', [b]]));
    const rounds: readonly [UnitContents, EncodedResource[]][] = [
      [units(['one', unit], ['two', [b]]), [a, b]],
      [units(['one', [changed]]), [changed]],
      [units(['one', [a, b]]), [a, b]],
      [units(['three', unit], ['one', undefined]), [a]],
      [units(['two', [b]], ['one', []]), [b]],
    ];
    for (const [contents, expected] of rounds) {
      const bundle = begin(contents);
      assert.deepEqual([bundle.viewKey, bundle.sequence], ['w', 1]);
      assert.deepEqual(bundle.resources(), expected);
    }
  });

  it('is the shared empty bundle when there are no resources, even with a template', () => {
    const precedents = new BundleTemplates();
    precedents.begin('outbound', emptyBundle('cds', 'v'), units(['one', [a]]));
    const empty = emptyBundle('cds', 'w');
    assert.equal(precedents.begin('outbound', empty, units(['one', undefined], ['two', []])), empty);
  });

  it('has the last resource of a name that is in two units', () => {
    const precedents = new BundleTemplates();
    const shared = [a];
    const begin = (contents: UnitContents) => precedents.begin('outbound', emptyBundle('cds', 'w'), contents);
    begin(units(['two', shared]));
    assert.deepEqual(begin(units(['one', [changed]], ['two', shared])).resources(), [a]);
  });

  it('is of its own part and type', () => {
    const precedents = new BundleTemplates();
    precedents.begin('outbound', emptyBundle('cds', 'v'), units(['one', [a]]));
    const inbound = precedents.begin('inbound', emptyBundle('cds', 'w'), units(['one', [b]]));
    const listeners = precedents.begin('outbound', emptyBundle('lds', 'v'), units(['one', [b]]));
    assert.deepEqual([inbound.resources(), listeners.resources(), listeners.type], [[b], [b], 'lds']);
  });

  it('depends only on its units, not on earlier views', () => {
    const pool = ['a', 'b', 'c', 'd'].flatMap((name) => [[resource(name, '1')], [resource(name, '2')]]);
    const contents = fc.dictionary(fc.constantFrom('one', 'two', 'three'), fc.option(fc.constantFrom(...pool, [])));
    fc.assert(
      fc.property(fc.array(contents, { maxLength: 6 }), (views) => {
        const precedents = new BundleTemplates();
        for (const view of views) {
          const given = new Map(Object.entries(view).map(([unit, resources]) => [unit, resources ?? undefined]));
          const expected = new Map([...given.values()].flatMap((all) => (all ?? []).map((each) => [each.name, each])));
          const bundle = precedents.begin('gateway', emptyBundle('cds', 'v'), given);
          assert.deepEqual(new Map(bundle.resources().map((each) => [each.name, each])), expected);
        }
      }),
      { numRuns: 200 },
    );
  });
});
