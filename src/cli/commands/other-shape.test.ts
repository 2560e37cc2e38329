import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FakePages } from '../testing/fake-pages.ts';

describe('JSON of another shape is an error of one line', () => {
  const pages = new FakePages({
    configz: () => 'null',
    whyz: () => ({ policies: {} }),
    diffz: () => 'true',
    analysisz: () => [],
  });
  before(() => pages.start());
  after(() => pages.close());

  for (const [name, ...args] of [
    ['get', 'vs'],
    ['why', 'a.b', 'c'],
    ['diff', '--file', import.meta.filename],
    ['analyze'],
  ] as const) {
    test(`for ${name}`, async () => {
      const { code, stdout, stderr } = await pages.run(name, ...args);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, /^ctl-discovery: [\d.:]+ returned JSON without the list \w+: [^\n]*\n$/);
    });
  }
});
