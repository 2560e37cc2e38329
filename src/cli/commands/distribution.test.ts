import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FakePages } from '../testing/fake-pages.ts';

const KEY = 'VirtualService/shop/web';

describe('distribution', () => {
  const has = (proxy: string, rds: string, upToDate = true) => {
    return { proxy, connectionId: `${proxy}-1`, versions: { cds: 'new', rds }, upToDate };
  };
  const pages = new FakePages({
    config_distribution: ({ resource }) =>
      resource === KEY ? [has('web-1.shop', 'old', false), has('api-1.shop', 'new'), has('db.data', 'new')] : undefined,
  });
  const other = new FakePages({ config_distribution: () => [has('far.shop', 'new')] });
  before(() => Promise.all([pages.start(), other.start()]));
  after(() => Promise.all([pages.close(), other.close()]));
  const distribution = (...args: readonly string[]) => pages.run('distribution', ...args);

  test('lists which proxies have the current version, and returns 1 while one has not', async () => {
    const { code, stdout } = await distribution(KEY);
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^NAME +UP TO DATE +LACKS +DISCOVERY\napi-1\.shop +yes .*\ndb\.data +yes .*\nweb-1\.shop +no +RDS /,
    );
    const ofData = await distribution(KEY, '-n', 'data', '-o', 'json');
    assert.equal(ofData.code, 0);
    assert.deepEqual(
      JSON.parse(ofData.stdout).map(({ proxy }: { proxy: string }) => proxy),
      ['db.data'],
    );
  });

  test('asks all replicas', async () => {
    const { stdout } = await distribution(KEY, '--httpAddr', `${pages.address},${other.address}`);
    assert.match(stdout, /^far\.shop +yes /m);
    assert.match(stdout, /^web-1\.shop +no /m);
  });

  test('a document that is unknown, or no document, is one line', async () => {
    const unknown = await distribution('VirtualService/shop/none');
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /^ctl-discovery: [^\n]+\n$/);
    const wrong = await distribution('web');
    assert.match(wrong.stderr, /expected KIND\/NAMESPACE\/NAME, got web/);
  });
});
