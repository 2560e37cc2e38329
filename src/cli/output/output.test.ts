import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FakePages } from '../testing/fake-pages.ts';

const CLEVER = 'a\u001b[2Jb\u009b2Jc\u202ed';
const CONTROLS = /(?!\n)[\p{Cc}\u202e]/u;

describe('characters that control a terminal', () => {
  const ITEM = {
    kind: 'VirtualService',
    metadata: { namespace: 'shop', name: CLEVER },
    spec: {},
    origin: { source: CLEVER },
  };
  const problems = [{ key: CLEVER, field: 'spec', message: CLEVER, origin: {} }];
  const pages = new FakePages({ configz: () => ({ items: [ITEM], problems }) });
  before(() => pages.start());
  after(() => pages.close());

  for (const format of ['', 'json', 'yaml']) {
    test(`are not printed, output ${format || 'table'}`, async () => {
      const args = format === '' ? [] : ['--output', format];
      const { code, stdout, stderr } = await pages.run('get', 'vs', ...args);
      assert.equal(code, 0, stderr);
      assert.doesNotMatch(stdout, CONTROLS);
      assert.doesNotMatch(stderr, CONTROLS);
      assert.match(stderr, /^refused: a\?\[2Jb\?2Jc\?d: /);
      if (format === 'json') assert.equal(JSON.parse(stdout).items[0].metadata.name, CLEVER);
    });
  }

  test('leave YAML readable', async () => {
    const { parse } = await import('../../core/yaml.ts');
    const { stdout } = await pages.run('get', 'vs', '--output', 'yaml');
    assert.equal((parse(stdout) as { items: (typeof ITEM)[] }).items[0]?.metadata.name, CLEVER);
  });
});
