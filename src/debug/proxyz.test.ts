import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { ConnectionStatus, ProxySession } from '../push/index.ts';
import { endpoints, inline, Mesh, service, sidecar, virtualService } from '../push/testing/mesh.ts';
import { documentsIn, proxyz } from './proxyz.ts';
import type { ProxyDetail, ProxyDifference, ProxyResource, ProxyResources } from './shapes.ts';
import type { DebugSource, Recent } from './types.ts';
import { Viewed } from './viewed.ts';

const mesh = new Mesh(inline, [
  service('shop', 'web'),
  endpoints('shop', 'web', '10.0.0.1'),
  virtualService('shop', 'web', '3s'),
  service('guest', 'own'),
]);
const sessions = [
  mesh.connect(sidecar('10.0.0.1', 'shop')).session,
  mesh.connect(sidecar('10.0.0.9', 'guest')).session,
];

const statusOf = ({ node, connectionId }: ProxySession): ConnectionStatus => ({
  connectionId,
  node,
  peer: '',
  mode: 'delta',
  connectedAtMs: 0,
  types: new Map(),
});

before(() => Promise.all(sessions.map(({ ready }) => ready)));

/** At the moment 5, proxies had no clusters; the rest was as now. */
const contents: Recent['contents'] = {
  moments: () => [5],
  parts: (_, at, type) => (at !== 5 ? undefined : type === 'cds' ? [] : sessions[0]?.parts(type)),
};

const source: Partial<DebugSource> = {
  snapshot: () => mesh.snapshot,
  parts: (id, type) => sessions.find(({ connectionId }) => connectionId === id)?.parts(type) ?? [],
  reasonsFor(id, name) {
    const session = [...mesh.engine.sessions()].find(({ connectionId }) => connectionId === id);
    return session === undefined ? [] : mesh.engine.reasonsFor(session, name);
  },
  documents: () => [{ source: 'test', resource: service('shop', 'web'), replacesRefused: false }],
  recent: { contents } as unknown as Recent,
};

function answer(query: string, other = false): unknown {
  const [one, two] = sessions.map(statusOf);
  assert.ok(one !== undefined);
  const viewed = new Viewed(source as DebugSource, { namespace: 'shop' });
  return proxyz(viewed, one, new URLSearchParams(query), other ? two : undefined);
}

const CLUSTER = 'outbound|80||web.shop.svc.cluster.local';

test('a proxy has the number of its resources by type', () => {
  const { types, proxy } = answer('') as ProxyDetail;
  assert.equal(proxy.proxy, 'pod.shop');
  assert.deepEqual(
    types.map(({ type }) => type),
    ['cds', 'eds', 'lds', 'rds', 'nds'],
  );
});

test('a list is searched, and has a next page', () => {
  const { matching, resources } = answer('type=cds&search=WEB.SHOP') as ProxyResources;
  assert.deepEqual([matching, resources[0]?.name], [1, CLUSTER]);
  const first = answer('type=cds&limit=1') as ProxyResources;
  assert.deepEqual([first.resources.length, first.next], [1, 1]);
});

test('a resource has its content, what it refers to, and the documents that made it', () => {
  const { content, refs, madeBy } = answer(`type=cds&name=${encodeURIComponent(CLUSTER)}`) as ProxyResource;
  assert.equal((content as { name: string }).name, CLUSTER);
  assert.deepEqual(refs, [CLUSTER]);
  assert.ok(madeBy.some(({ key }) => key === 'Service/shop/web'));
  assert.equal(answer('type=cds&name=none'), undefined);
});

test('of documents in other namespaces the viewer sees the names only', () => {
  const { madeBy } = answer('type=rds&name=80') as ProxyResource;
  const foreign = madeBy.filter(({ key }) => !key.includes('/shop/'));
  assert.ok(foreign.every(({ origin }) => origin === undefined));
});

test('another proxy, of a namespace that the viewer does not see, has nothing to compare', () => {
  const { counts, onlyThere } = answer('type=cds', true) as ProxyDifference;
  assert.deepEqual([counts.onlyThere, onlyThere], [0, []]);
});

test('what a proxy should have is compared with what it should have had, and shown as it was then', () => {
  assert.deepEqual((answer('') as ProxyDetail).moments, [5]);
  const { counts, onlyHere, onlyThere } = answer('type=cds&at=5') as ProxyDifference;
  assert.ok(counts.onlyHere > 0 && onlyHere.includes(CLUSTER));
  assert.deepEqual(onlyThere, []);
  const routes = answer('type=rds&at=5') as ProxyDifference;
  assert.deepEqual([routes.same, routes.counts], [1, { changed: 0, onlyHere: 0, onlyThere: 0 }]);
  const { content, madeBy } = answer('type=rds&at=5&name=80') as ProxyResource;
  assert.deepEqual([(content as { name: string }).name, madeBy], ['80', []]);
  assert.equal(answer(`type=cds&at=5&name=${encodeURIComponent(CLUSTER)}`), undefined);
  assert.throws(() => answer('type=cds&at=6'), { code: 'invalid_argument', message: /nothing is kept/ });
});

test('an unknown type is refused', () => {
  assert.throws(() => answer('type=xyz'), { code: 'invalid_argument' });
});

test('documents are read from metadata', () => {
  const istio = { config: '/apis/networking.istio.io/v1alpha3/namespaces/shop/virtual-service/web' };
  const content = { routes: [{ metadata: { filter_metadata: { istio } } }], config: 'other' };
  assert.deepEqual([...documentsIn(content)], ['VirtualService/shop/web']);
});
