import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { byXdsType, XDS, XDS_TYPES, type XdsType, xdsTypeOfUrl } from './xds-types.ts';

const REPOSITORY = join(import.meta.dirname, '../..');

/** Program files that contain the text. */
function filesWith(found: (text: string) => boolean): string[] {
  return globSync(['src/**/*.ts', 'workers/*.ts'], { cwd: REPOSITORY })
    .filter((file) => !/\.test\.ts$|\/testing/.test(file))
    .filter((file) => found(readFileSync(join(REPOSITORY, file), 'utf8')));
}

describe('the table of xDS resource types', () => {
  it('finds each type by its URL, and no other', () => {
    for (const type of XDS_TYPES) assert.equal(xdsTypeOfUrl(XDS[type].url), type);
    assert.equal(xdsTypeOfUrl('type.googleapis.com/envoy.config.core.v3.Node'), undefined);
    assert.equal(xdsTypeOfUrl(''), undefined);
  });

  it('sends endpoints after clusters, and both before listeners, routes and virtual hosts', () => {
    const order = (type: XdsType) => XDS_TYPES.indexOf(type);
    assert.ok(order('cds') < order('eds'));
    for (const type of XDS_TYPES.filter((one) => XDS[one].refersTo.includes('cds')))
      assert.ok(order('eds') < order(type), type);
  });

  it('refers only to types that it has, and to none that may be removed at once', () => {
    for (const type of XDS_TYPES)
      for (const referred of XDS[type].refersTo) {
        assert.ok(XDS_TYPES.includes(referred), `${type} refers to ${referred}`);
        assert.equal(XDS[referred].unreferenced, false, `${type} refers to ${referred}`);
      }
  });

  it('makes one value for each type', () => {
    assert.deepEqual(Object.values(byXdsType((type) => type)), XDS_TYPES);
  });

  it('is the only place that spells type URLs or lists the types', () => {
    const urls = XDS_TYPES.map((type) => XDS[type].url);
    assert.deepEqual(
      filesWith((text) => urls.some((url) => text.includes(url))),
      [],
    );
    assert.deepEqual(
      filesWith((text) => /\[(?:\s*'(?:cds|eds|sds|lds|rds|vhds|nds)',?){4,}\s*\]/.test(text)),
      [],
    );
  });
});
