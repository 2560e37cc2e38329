/** Which changes are of endpoints only: they are published apart from changes of configuration. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { type MetaFields, pod, resource } from '../testing/build.ts';
import { changedEndpoints } from './endpoint-changes.ts';

function changed(before: AnyResource | undefined, after: AnyResource | undefined): string | undefined {
  const document = after ?? before;
  assert.ok(document);
  return changedEndpoints({ key: keyOf(document), before, after });
}

const slice = (name: string, service?: string) =>
  resource(
    'EndpointSlice',
    `shop/${name}`,
    { addressType: 'IPv4', endpoints: [] },
    service === undefined ? {} : { labels: { 'kubernetes.io/service-name': service } },
  );

const entry = (content: object, fields: MetaFields = {}) =>
  resource(
    'ServiceEntry',
    'shop/web',
    { hosts: ['web.shop'], ports: [{ number: 80, name: 'http', protocol: 'HTTP' }], resolution: 'STATIC', ...content },
    fields,
  );

test('the slices of a service belong together, also when they are deleted', () => {
  assert.equal(changed(undefined, slice('web-1', 'web')), 'shop/web');
  assert.equal(changed(slice('web-2', 'web'), undefined), 'shop/web');
  assert.equal(changed(undefined, slice('web-3')), 'EndpointSlice/shop/web-3');
});

test('Pods are endpoints of their own; Services and rules are not', () => {
  assert.equal(changed(undefined, pod('shop/web-1', '10.0.0.1')), 'Pod/shop/web-1');
  assert.equal(changed(undefined, resource('Service', 'shop/web', { spec: { ports: [] } })), undefined);
  assert.equal(changed(undefined, resource('VirtualService', 'shop/web', { hosts: ['web'] })), undefined);
});

test('a ServiceEntry whose endpoints alone differ is a change of endpoints', () => {
  const [one, two] = [{ endpoints: [{ address: '10.0.0.1' }] }, { endpoints: [{ address: '10.0.0.2' }] }];
  assert.equal(changed(entry(one), entry(two)), 'ServiceEntry/shop/web');
  assert.equal(changed(undefined, entry(one)), undefined);
  assert.equal(changed(entry(one), undefined), undefined);
  assert.equal(changed(entry(one), entry({})), undefined);
  assert.equal(changed(entry(one), entry({ endpoints: [] })), undefined);
  assert.equal(changed(entry(one), entry({ ...two, exportTo: ['.'] })), undefined);
  assert.equal(changed(entry(one), entry(two, { labels: { tier: 'front' } })), undefined);
});
