import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { endpoints, inline, Mesh, meshResource, parse, service, sidecar } from '../../push/testing/mesh.ts';
import type { ConnectionStatus, ProxySession } from '../../push/types.ts';
import { Stepwise } from '../json-pieces.ts';
import type { DebugSource } from '../types.ts';
import { Viewed } from '../viewed.ts';
import { parseDestination } from './destination.ts';
import { whyz } from './index.ts';

const HOST = 'web.shop.svc.cluster.local';
const route = (match: object | undefined, subset: string) => ({
  ...(match !== undefined && { match: [match] }),
  route: [{ destination: { host: 'web', subset } }],
});
/** More destinations than an answer names. */
const MANY = Array.from({ length: 150 }, (_, index) => {
  return { destination: { host: `many-${index}.example` }, weight: 1 };
});
const mesh = new Mesh(inline, [
  service('shop', 'web'),
  endpoints('shop', 'web', '10.0.0.1'),
  meshResource('DestinationRule', 'shop', 'web', {
    host: 'web',
    subsets: ['a', 'b', 'c'].map((name) => ({ name, labels: { version: name } })),
  }),
  meshResource('VirtualService', 'shop', 'web', {
    hosts: ['web'],
    http: [
      route({ headers: { 'x-user': { exact: 'secret' } } }, 'a'),
      route({ uri: { prefix: '/v2' } }, 'b'),
      { match: [{ uri: { prefix: '/many' } }], route: MANY },
      { ...route(undefined, 'c') },
    ],
  }),
  meshResource('AuthorizationPolicy', 'shop', 'deny', { action: 'DENY', rules: [{}] }),
  // Its Pod is in another namespace.
  service('guest', 'shared'),
  endpoints('guest', 'shared', '10.0.0.5'),
  parse({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'shared', namespace: 'other' },
    spec: { containers: [] },
    status: { phase: 'Running', podIP: '10.0.0.5', podIPs: [{ ip: '10.0.0.5' }] },
  }),
  meshResource('AuthorizationPolicy', 'other', 'allow', { rules: [{}] }),
  meshResource('PeerAuthentication', 'shop', 'default', { mtls: { mode: 'STRICT' } }),
]);

describe('the way of a request', () => {
  let session: ProxySession;
  let connection: ConnectionStatus;
  before(async () => {
    ({ session } = mesh.connect(sidecar('10.0.0.9', 'guest')));
    await session.ready;
    const { node, connectionId } = session;
    connection = { connectionId, node, peer: '', mode: 'delta', connectedAtMs: 0, types: new Map() };
  });
  after(() => session.close());

  function ask(destination: string, viewer: 'all' | { namespace: string } = 'all') {
    return walked(destination, viewer).answer;
  }

  function walked(destination: string, viewer: 'all' | { namespace: string } = 'all') {
    const source = {
      snapshot: () => mesh.snapshot,
      connections: () => [connection],
      parts: (_id: string, type: Parameters<ProxySession['parts']>[0]) => session.parts(type),
      reasonsFor: (_id: string, name: string) => {
        const [found] = mesh.engine.sessions();
        return found === undefined ? [] : mesh.engine.reasonsFor(found, name);
      },
      documents: () => [],
    } as unknown as DebugSource;
    const page = whyz(new Viewed(source, viewer), new URLSearchParams({ source: 'pod.guest', destination }));
    assert.ok(page instanceof Stepwise);
    let steps = 0;
    let step = page.steps.next();
    for (; step.done !== true; step = page.steps.next()) steps++;
    const answer = JSON.parse(JSON.stringify(step.value)) as {
      listener?: { name: string };
      route?: {
        virtualHost?: string;
        match?: string;
        result?: string;
        onlyIf?: { conditions: string[] }[];
        documents?: { key: string }[];
      };
      clustersOmitted?: number;
      clusters?: { name: string; documents: { key: string }[] }[];
      policies: {
        mutualTls: string;
        peerAuthentications: { key: string }[];
        authorizationPolicies: { key: string }[];
      }[];
    };
    return { answer, steps };
  }

  it('goes by listener, virtual host and route to the cluster, each with its documents', () => {
    const way = ask(`${HOST}/v2/x`);
    assert.equal(way.listener?.name, '0.0.0.0_80');
    assert.deepEqual([way.route?.match, way.clusters?.map(({ name }) => name)], ['/v2*', [`outbound|80|b|${HOST}`]]);
    assert.equal(way.route?.documents?.[0]?.key, 'VirtualService/shop/web');
    assert.deepEqual(
      way.clusters?.[0]?.documents.map(({ key }) => key),
      ['DestinationRule/shop/web', 'Service/shop/web'],
    );
    assert.deepEqual(ask(`web.shop:80`).clusters?.[0]?.name, `outbound|80|c|${HOST}`, 'short name, other path');
  });

  it('names conditions that come first, without the values of headers', () => {
    const way = ask(HOST);
    assert.deepEqual(
      way.route?.onlyIf?.map(({ conditions }) => conditions),
      [['header x-user']],
    );
    assert.doesNotMatch(JSON.stringify(way), /secret/);
  });

  it('names the policies of the destination for viewers who see its namespace', () => {
    const [policy] = ask(HOST).policies;
    assert.equal(policy?.mutualTls, 'STRICT');
    assert.deepEqual(
      policy?.peerAuthentications.map(({ key }) => key),
      ['PeerAuthentication/shop/default'],
    );
    assert.deepEqual(
      policy?.authorizationPolicies.map(({ key }) => key),
      ['AuthorizationPolicy/shop/deny'],
    );
    assert.deepEqual(ask(HOST, { namespace: 'guest' }).policies, []);
    assert.throws(() => ask(HOST, { namespace: 'shop' }), /source: pod\.guest is not connected/);
  });

  it('names a limited number of clusters, with a step for each', () => {
    const { answer, steps } = walked(`${HOST}/many`);
    assert.deepEqual([answer.clusters?.length, answer.clustersOmitted], [100, 50]);
    assert.ok(steps >= 100, `${steps} steps`);
  });

  it('shows the policies of the namespace of the workloads, to viewers who see it', () => {
    const [policy] = ask('shared.guest').policies;
    assert.equal(policy?.mutualTls, 'PERMISSIVE');
    assert.deepEqual(
      policy?.authorizationPolicies.map(({ key }) => key),
      ['AuthorizationPolicy/other/allow'],
    );
    assert.deepEqual(ask('shared.guest', { namespace: 'guest' }).policies, []);
  });

  it('notes a port that the service does not have', () => {
    assert.match(JSON.stringify(ask('web.shop:81')), /"note":"the service of web\.shop has no port 81, but 80"/);
    assert.doesNotMatch(JSON.stringify(ask('web.shop:80')), /"note"/);
    assert.doesNotMatch(JSON.stringify(ask('web.shop:81', { namespace: 'guest' })), /"note"/, 'not visible');
  });

  it('leads unknown destinations through the listener for all addresses', () => {
    const way = ask('192.0.2.1:9999');
    assert.deepEqual([way.listener?.name, way.clusters?.[0]?.name], ['virtualOutbound', 'PassthroughCluster']);
  });

  it('reads destinations with bounds', () => {
    assert.deepEqual(parseDestination('https://[FD00::1]/a?b'), { host: 'fd00::1', port: 443, path: '/a', tls: true });
    for (const text of ['', 'a b', 'http://u:p@h', `h/${'x'.repeat(3000)}`, 'h:99999'])
      assert.throws(() => parseDestination(text), { code: 'invalid_argument' }, text.slice(0, 20));
  });
});
