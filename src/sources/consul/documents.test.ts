/** The documents of services of Consul: names, protocols, labels, identities, and what a hostile registration may write. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registrationOf } from './answers.ts';
import { isServiceName, serviceDocuments } from './documents.ts';
import type { Instance, Status } from './known-instances.ts';

const OPTIONS = { namespace: 'default', passingOnly: false };

interface Written {
  readonly address?: string;
  readonly port?: number;
  readonly tags?: readonly unknown[];
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly weights?: unknown;
  readonly kind?: string;
  readonly status?: Status;
  readonly nodeAddress?: string;
}

/** Through the reader of the API's answers, because that is where values of any type arrive. */
function made({ status = 'passing', nodeAddress = '10.9.9.9', ...written }: Written, n = 1): Instance {
  const { address = `10.0.0.${n}`, port = 8080, tags = [], meta = {}, weights, kind } = written;
  const service = { ID: `i${n}`, Address: address, Port: port, Tags: tags, Meta: meta, Weights: weights, Kind: kind };
  const registration = registrationOf({
    Node: { Node: 'n', Address: nodeAddress, Datacenter: 'dc1' },
    Service: service,
    Checks: [],
  });
  assert.ok(typeof registration === 'object');
  return { ...registration, status };
}

function documentsOf(instances: readonly Instance[], name = 'web', options = OPTIONS) {
  return [...serviceDocuments(name, instances, options, 0)].map(([key, event]) => {
    assert.equal(event.type, 'set', key);
    assert.ok(event.type === 'set' && event.resource.kind === 'ServiceEntry');
    const { meta, content, warnings = [] } = event.resource;
    return { key, meta, spec: content as Record<string, unknown>, warnings: warnings.map(({ message }) => message) };
  });
}

function endpointsOf(written: Written, options = OPTIONS): readonly Record<string, unknown>[] {
  return (documentsOf([made(written)], 'web', options)[0]?.spec.endpoints ?? []) as Record<string, unknown>[];
}

test('a service has a document for each port, with the instances of that port', () => {
  const [first, second, ...rest] = documentsOf([
    made({ meta: { protocol: 'http' } }, 1),
    made({ meta: { protocol: 'http' }, port: 9090 }, 2),
    made({ meta: { protocol: 'HTTP', 'service-port': '8080' }, port: 31_234 }, 3),
  ]);
  assert.deepEqual(
    [first?.key, second?.key, rest],
    ['ServiceEntry/default/web-8080.service.consul', 'ServiceEntry/default/web-9090.service.consul', []],
  );
  assert.deepEqual(first?.spec, {
    hosts: ['web.service.consul'],
    ports: [{ number: 8080, name: 'http-8080', protocol: 'HTTP' }],
    location: 'MESH_INTERNAL',
    resolution: 'STATIC',
    endpoints: [
      { address: '10.0.0.1', ports: { 'http-8080': 8080 }, locality: 'dc1' },
      { address: '10.0.0.3', ports: { 'http-8080': 31_234 }, locality: 'dc1' },
    ],
  });
});

test('tags are labels, metadata gives the account, and a label of Istio 1.7 the account of its registry', () => {
  const tags = ['version|v2', 'plain', 'app|web|more', 'version|v3'];
  const [endpoint] = endpointsOf({ tags, meta: { 'service-account': 'web' } });
  assert.deepEqual([endpoint?.labels, endpoint?.serviceAccount], [{ version: 'v2', app: 'web' }, 'web']);
  assert.equal(endpointsOf({ tags: ['security.istio.io/tlsMode|istio'] })[0]?.serviceAccount, 'default');
  assert.equal(endpointsOf({})[0]?.serviceAccount, undefined);
});

test('health and weights: critical instances stay unhealthy endpoints, warnings have their weight', () => {
  const weights = { Passing: 10, Warning: 2 };
  const found = (written: Written, options = OPTIONS) => {
    const [document] = documentsOf([made(written)], 'web', options);
    const [endpoint] = (document?.spec.endpoints ?? []) as { weight?: number }[];
    return [endpoint?.weight, document?.meta.unhealthyEndpoints];
  };
  assert.deepEqual(found({ weights }), [10, undefined]);
  assert.deepEqual(found({ weights, status: 'warning' }), [2, undefined]);
  assert.deepEqual(found({ weights, status: 'critical' }), [10, [0]]);
  assert.deepEqual(found({ weights: { Passing: 1, Warning: 0 }, status: 'warning' }), [undefined, [0]]);
  assert.deepEqual(found({ status: 'warning' }, { ...OPTIONS, passingOnly: true }), [undefined, [0]]);
});

test('instances at one address and port are one endpoint, a healthy one if there is one', () => {
  const [document] = documentsOf([
    made({ address: '10.0.0.7', status: 'critical' }, 1),
    made({ address: '10.0.0.7', meta: { 'service-account': 'b' } }, 2),
  ]);
  assert.deepEqual(
    [document?.spec.endpoints, document?.meta.unhealthyEndpoints],
    [[{ address: '10.0.0.7', ports: { 'tcp-8080': 8080 }, locality: 'dc1', serviceAccount: 'b' }], undefined],
  );
});

test('addresses: that of the node without one, host names with DNS, no sockets and no addresses of no host', () => {
  assert.equal(endpointsOf({ address: '' })[0]?.address, '10.9.9.9');
  const [named] = documentsOf([made({ address: 'Db.Example.com.' })]);
  assert.deepEqual(
    [named?.spec.resolution, ((named?.spec.endpoints ?? []) as { address: string }[])[0]?.address],
    ['DNS', 'db.example.com'],
  );
  for (const address of [
    'unix:///run/docker.sock',
    '0.0.0.0',
    '::',
    'ff02::1',
    '239.1.1.1',
    '10.0.0',
    'a b',
    '*',
    'fe80::1%eth0',
  ]) {
    const [document] = documentsOf([made({}, 1), made({ address }, 2)]);
    assert.equal(((document?.spec.endpoints ?? []) as unknown[]).length, 1, address);
    assert.match(document?.warnings.join() ?? '', /expected an IP address of a host or a host name/);
  }
});

test('a registration can make its own service odd, and no other', () => {
  const hostile = made({
    tags: ['__proto__|x', 'bad key|x', `long|${'x'.repeat(64)}`, 7, 'app|ok'],
    meta: {
      protocol: 'nonsense',
      'service-account': 'a/b',
      'service-port': '70000',
      namespace: 'kube-system',
      network: 'x',
    },
    weights: { Passing: 'many', Warning: -1 },
  });
  const [document] = documentsOf([hostile]);
  assert.equal(document?.meta.namespace, 'default');
  assert.deepEqual(document?.spec.endpoints, [
    { address: '10.0.0.1', ports: { 'tcp-8080': 8080 }, labels: { app: 'ok' }, locality: 'dc1' },
  ]);
  assert.equal(document?.warnings.length, 6);
  assert.deepEqual(documentsOf([made({ port: 0 }), made({ kind: 'connect-proxy' })]), []);
  const names = [
    'web',
    'Web',
    'a-b',
    'a.b',
    'web.shop.svc.cluster.local',
    '*',
    '',
    'x'.repeat(64),
    '-a',
    'a_b',
    '..',
    '\u212Aafka',
  ];
  assert.deepEqual(names.filter(isServiceName), ['web', 'Web', 'a-b']);
});

test('documents are younger than all others, so that a name or a port that others claim is theirs', () => {
  const [document] = documentsOf([made({})]);
  assert.ok((document?.meta.created ?? 0) > Date.parse('9000-01-01T00:00:00Z'));
});

test('an external service is outside the mesh, and different protocols of one port are reported', () => {
  const [document] = documentsOf([
    made({ meta: { external: 'true', protocol: 'http' } }, 1),
    made({ meta: { protocol: 'grpc' } }, 2),
    made({ meta: { protocol: 'grpc' } }, 3),
  ]);
  assert.equal(document?.spec.location, 'MESH_EXTERNAL');
  assert.match(document?.warnings.join() ?? '', /different protocols; GRPC is used/);
});
