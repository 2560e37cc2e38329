import assert from 'node:assert/strict';
import { test } from 'node:test';
import { meshOf, resource, service } from '../model/testing/build.ts';
import type { AnyResource } from '../resources/index.ts';
import { analyze, MAX_OF_NAMESPACE } from './analyze.ts';
import { inputOfSnapshot } from './testing/input.ts';

const route = (namespace: string, name: string, host: string) =>
  resource('VirtualService', `${namespace}/${name}`, {
    hosts: [`${name}.example`],
    http: [{ route: [{ destination: { host } }] }],
  });

test('one document does not fill the result, and one namespace does not displace others', () => {
  const destinations = Array.from({ length: 30 }, (_, at) => ({ destination: { host: `none-${at}` } }));
  const wide = resource('VirtualService', 'shop/wide', { hosts: ['wide.example'], http: [{ route: destinations }] });
  const many = Array.from({ length: MAX_OF_NAMESPACE + 10 }, (_, at) => route('greedy', `r-${at}`, 'none'));
  const { findings, omitted } = analyze(inputOfSnapshot(meshOf([wide, ...many, route('small', 'x', 'none')])));
  const counts = new Map<string, number>();
  for (const finding of findings) {
    if (finding !== undefined)
      counts.set(finding.resource.namespace, (counts.get(finding.resource.namespace) ?? 0) + 1);
  }
  assert.deepEqual(Object.fromEntries(counts), { shop: 20, greedy: MAX_OF_NAMESPACE, small: 1 });
  assert.equal(omitted(), 20);
});

test('the work can be interrupted between documents', () => {
  const many = Array.from({ length: 100 }, (_, at) => route('shop', `r-${at}`, 'web'));
  const { findings } = analyze(inputOfSnapshot(meshOf([service('shop/web'), ...many])));
  assert.ok([...findings].length > many.length);
});

test('the work can be interrupted between matches of one route, and between pairs of Gateways', () => {
  const match = Array.from({ length: 200 }, (_, at) => ({ uri: { prefix: `/${at}/` } }));
  const matches = resource('VirtualService', 'shop/wide', {
    hosts: ['wide.example'],
    http: [{ match, route: [{ destination: { host: 'web' } }] }],
  });
  const gateways = Array.from({ length: 60 }, (_, at) =>
    resource('Gateway', `shop/g-${at}`, {
      selector: { app: `edge-${at}` },
      servers: [{ port: { number: 80, protocol: 'HTTP', name: 'http' }, hosts: ['*'] }],
    }),
  );
  const stepsOf = (...resources: readonly AnyResource[]) =>
    [...analyze(inputOfSnapshot(meshOf([service('shop/web'), ...resources]))).findings].length;
  assert.ok(stepsOf(matches) > match.length);
  assert.ok(stepsOf(...gateways) > gateways.length * (gateways.length - 1));
});

test('the work can be interrupted while workloads, proxies and services are indexed', () => {
  const pods = Array.from({ length: 100 }, (_, at) => resource('Pod', `shop/p-${at}`, { spec: {} }));
  const services = Array.from({ length: 100 }, (_, at) => service(`shop/s-${at}`, { clusterIP: `10.96.1.${at}` }));
  const asked: number[] = [];
  function* proxies() {
    for (let at = 0; at < 100; at++) {
      asked.push(at);
      yield { namespace: 'shop', name: `w-${at}`, labels: { app: `w-${at}` } };
    }
  }
  const { findings } = analyze({ ...inputOfSnapshot(meshOf([...pods, ...services])), proxies: proxies() });
  const stepsTo = (count: number) => {
    let steps = 0;
    while (asked.length < count && !findings.next().done) steps++;
    return steps;
  };
  assert.ok(stepsTo(1) >= pods.length);
  assert.ok(stepsTo(100) >= 99);
  assert.ok([...findings].length >= 2 * services.length);
});

test('a long path takes as many steps as there are lengths of prefixes before it', (t) => {
  const uris = [{ prefix: '/a' }, { prefix: '/b' }, { exact: `/c${'x'.repeat(20_000)}` }, { exact: '/b/c' }];
  const http = uris.map((uri) => ({ match: [{ uri }], route: [{ destination: { host: 'web' } }] }));
  const document = resource('VirtualService', 'shop/long', { hosts: ['long.example'], http });
  const input = inputOfSnapshot(meshOf([service('shop/web'), document]));
  const { mock } = t.mock.method(String.prototype, 'slice');
  const codes = [...analyze(input).findings].flatMap((finding) => (finding === undefined ? [] : [finding.code]));
  assert.ok(mock.callCount() < 1000, `${mock.callCount()} slices of strings`);
  assert.ok(codes.includes('IST0131'), codes.join());
});

test('who does not see a namespace learns nothing about it', () => {
  const gateway = resource('Gateway', 'shop/public', {
    selector: { mesh: 'ingressgateway' },
    servers: [
      {
        port: { number: 443, protocol: 'HTTPS', name: 'https' },
        hosts: ['*'],
        tls: { mode: 'SIMPLE', credentialName: 'key' },
      },
    ],
  });
  const pod = resource('Pod', 'edge/gateway', { spec: {} }, { labels: { mesh: 'ingressgateway' } });
  const hidden = resource('ServiceEntry', 'other/private', {
    hosts: ['private.example'],
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    resolution: 'DNS',
    exportTo: ['.'],
  });
  const input = inputOfSnapshot(
    meshOf([gateway, pod, hidden, route('shop', 'x', 'private.example'), route('edge', 'y', 'none')]),
  );
  const seenBy = (...namespaces: readonly string[]) =>
    [...analyze(input, (namespace) => namespaces.includes(namespace)).findings].flatMap((finding) =>
      finding === undefined ? [] : [`${finding.code} ${finding.resource.name}: ${finding.message}`],
    );
  const unknown = 'IST0101 x: http[0].route[0]: no service private.example is visible in namespace shop';
  assert.deepEqual(seenBy('shop'), [unknown]);
  const all = seenBy('shop', 'edge').join('\n');
  for (const text of ['Secret edge/key does not exist', 'port 443 is not exposed', 'IST0101 y'])
    assert.ok(all.includes(text), all);
});
