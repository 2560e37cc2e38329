import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import { httpPort, serviceOf } from '../testing/routes.ts';
import { hasDomain, serviceDomains, viewerOf } from './service-domains.ts';

const MEMOS = new Memos();

const OWN = 'default.svc.cluster.local';
const OTHER = 'shop.svc.cluster.local';

describe('domains of a service', () => {
  test('all short forms in its own namespace, each with and without port', () => {
    const service = serviceOf('reviews', [httpPort(9080)], { addresses: ['10.0.0.1', 'fd00::1'] });
    const hosts = [
      'reviews.default.svc.cluster.local',
      'reviews',
      'reviews.default',
      'reviews.default.svc',
      '10.0.0.1',
      '[fd00::1]',
    ];
    assert.deepEqual(
      serviceDomains(MEMOS, service, 9080, viewerOf(OWN)),
      hosts.flatMap((host) => [host, `${host}:9080`]),
    );
  });
  test('the bare name is for its own namespace only', () => {
    const domains = serviceDomains(MEMOS, serviceOf('reviews', [httpPort(80)]), 80, viewerOf(OTHER));
    assert.ok(!domains.includes('reviews'));
    assert.ok(domains.includes('reviews.default'));
  });
  test('an external host has no short forms; address ranges are not domains', () => {
    const service = serviceOf('x', [httpPort(80)], { hostname: 'api.example.com', addresses: ['10.1.0.0/16'] });
    assert.deepEqual(serviceDomains(MEMOS, service, 80, viewerOf(OWN)), ['api.example.com', 'api.example.com:80']);
  });
  test('a headless service has its pods’ names', () => {
    const service = serviceOf('web', [httpPort(80)], { headless: true });
    assert.ok(serviceDomains(MEMOS, service, 80, viewerOf(OWN)).includes('*.web.default.svc.cluster.local'));
  });
  test('each address once, of few and of many', () => {
    for (const count of [3, 3000]) {
      const some = Array.from({ length: count }, (_, index) => `10.0.${index >> 8}.${index & 255}`);
      const service = serviceOf('x', [httpPort(80)], { hostname: 'a.example.com', addresses: [...some, ...some] });
      const domains = serviceDomains(MEMOS, service, 80, viewerOf(OWN));
      assert.deepEqual(
        domains,
        ['a.example.com', ...some].flatMap((host) => [host, `${host}:80`]),
      );
      for (const each of domains) assert.ok(hasDomain(domains, each));
      assert.ok(!hasDomain(domains, '10.1.0.0'));
    }
  });
});
