import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import protobuf from 'protobufjs';
import * as fc from '../../core/testing/properties.ts';
import { XDS } from '../../core/xds-types.ts';
import { collectGarbage, turns } from '../testing/mesh.ts';
import type { Bundle, EncodedResource } from '../types.ts';
import { emptyBundle, nextBundle } from './bundle.ts';
import { contentVersion, encodeResource, resourceMessage } from './encode-resource.ts';
import { Interner } from './interner.ts';

// The published layout of these messages, written down a second time for the test's decoder.
const root = protobuf.parse(`syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Resource { string version = 1; Any resource = 2; string name = 3; }
  message Delta { repeated Resource resources = 2; }
  message Sotw { repeated Any resources = 2; }`).root;

function resource(name: string, content: string): EncodedResource {
  const message = Buffer.from(content);
  return encodeResource('cds', name, contentVersion(message), message, []);
}

describe('encoded resource', () => {
  it('is one buffer that is a Delta resource as a whole and a SotW resource from anyOffset on', () => {
    for (const length of [1, 127, 128, 16_383, 16_384, 300_000]) {
      const message = Buffer.alloc(length, 7);
      const encoded = encodeResource('lds', 'ünïcode', 'abc', message, ['80']);
      const delta = root.lookupType('Delta').decode(encoded.fragment).toJSON();
      const sotw = root.lookupType('Sotw').decode(encoded.fragment.subarray(encoded.anyOffset)).toJSON();
      const any = { typeUrl: XDS.lds.url, value: message.toString('base64') };
      assert.deepEqual(delta.resources, [{ version: 'abc', name: 'ünïcode', resource: any }]);
      assert.deepEqual(sotw.resources, [any]);
      assert.deepEqual(Buffer.from(resourceMessage(encoded)), message);
    }
  });
});

describe('interner', () => {
  it('gives one object for equal content and another for other content', () => {
    const interner = new Interner();
    const make = (version: string) => interner.intern('cds', 'a', version, [], () => Buffer.from(version));
    const first = make('1');
    assert.equal(make('1'), first);
    assert.notEqual(make('2'), first);
  });

  it('returns the same object again after an earlier equal one was collected late', async () => {
    const interner = new Interner();
    const make = () => interner.intern('cds', 'a', '1', [], () => Buffer.from('x'));
    const freed = new WeakRef(make());
    await collectGarbage();
    const again = make();
    assert.equal(freed.deref(), undefined);
    await turns();
    assert.equal(make(), again);
    assert.equal(interner.size, 1);
  });
});

describe('bundle', () => {
  it('is the same object when nothing changes', () => {
    const a = resource('a', '1');
    const bundle = nextBundle(emptyBundle('cds', 'v'), [['a', a]]);
    assert.equal(nextBundle(bundle, [['a', a]]), bundle);
    assert.equal(nextBundle(bundle, [['b', undefined]]), bundle);
  });

  it('computes a difference once', () => {
    const first = nextBundle(emptyBundle('cds', 'v'), [['a', resource('a', '1')]]);
    const second = nextBundle(first, [['b', resource('b', '1')]]);
    assert.equal(second.diffFrom(first), second.diffFrom(first));
  });

  it('compares bundles of different views by content', () => {
    const one = nextBundle(emptyBundle('cds', 'v'), [['a', resource('a', '1')]]);
    const other = nextBundle(emptyBundle('cds', 'w'), [['a', resource('a', '1')]]);
    assert.deepEqual(other.diffFrom(one), { changed: [], removed: [] });
  });

  it('stays the same object while it is empty, at first and after all resources are gone', () => {
    const first = emptyBundle('cds', 'w');
    for (const gone of [first, nextBundle(nextBundle(first, [['a', resource('a', '1')]]), [['a', undefined]])]) {
      assert.equal(gone.size, 0);
      assert.equal(nextBundle(gone, []), gone);
      assert.equal(nextBundle(gone, [['b', undefined]]), gone);
    }
  });

  it('has the exact differences to any older bundle, after any changes in between, with few and with many', () => {
    const step = fc.tuple(fc.constantFrom('a', 'b', 'n100', 'x'), fc.option(fc.constantFrom('1', '2', '3')));
    const many = Array.from({ length: 150 }, (_, index) => `n${index}`);
    const round = fc.oneof(
      { weight: 4, arbitrary: fc.array(step, { maxLength: 4 }) },
      fc.constantFrom('1', '2', null).map((text) => many.map((name) => [name, text] as const)),
    );
    fc.assert(
      fc.property(fc.array(round, { maxLength: 8 }), (rounds) => {
        const interner = new Interner();
        const history: Bundle[] = [emptyBundle('cds', 'v')];
        const expected = new Map<string, EncodedResource>();
        for (const round of rounds) {
          const changes = round.map(([name, content]) => {
            const made =
              content === null ? undefined : interner.intern('cds', name, content, [], () => Buffer.from(content));
            return [name, made] as const;
          });
          const next = nextBundle(history.at(-1) ?? emptyBundle('cds', 'v'), changes);
          history.push(next);
          for (const [name, made] of changes)
            if (made === undefined) expected.delete(name);
            else expected.set(name, made);
          assert.ok(next.size === expected.size && next.resources().every((each) => expected.get(each.name) === each));
        }
        const content = (bundle: Bundle) => new Map(bundle.resources().map(({ name, version }) => [name, version]));
        for (const bundle of history) {
          const names = bundle.resources().map(({ name }) => name);
          assert.deepEqual(names, names.toSorted());
          assert.equal(bundle.size, names.length);
          for (const name of [...many, 'a', 'b', 'x'])
            assert.equal(bundle.get(name)?.version, content(bundle).get(name));
        }
        for (const older of history) {
          for (const newer of history) {
            const applied = content(older);
            const { changed, removed } = newer.diffFrom(older);
            for (const { name, version } of changed) {
              assert.notEqual(applied.get(name), version);
              applied.set(name, version);
            }
            for (const name of removed) assert.ok(applied.delete(name));
            assert.deepEqual([...applied].sort(), [...content(newer)].sort());
          }
        }
      }),
      { numRuns: 100 },
    );
  });
});
