import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import { finish } from '../../core/slices.ts';
import { keyOf } from '../../resources/kinds/types.ts';
import { resourceMessage } from '../bundles/encode-resource.ts';
import {
  type Connected,
  content,
  endpoints,
  heldMesh,
  inline,
  Mesh,
  meshResource,
  parse,
  ready,
  service,
  sidecar,
  turns,
} from '../testing/mesh.ts';

type Labels = Readonly<Record<string, string>>;

const SECRET = '/secret';

/** Denies the path to the workloads with the label `state=closed`. */
const DENY = parse({
  apiVersion: 'security.mesh.io/v1beta1',
  kind: 'AuthorizationPolicy',
  metadata: { name: 'closed', namespace: 'shop' },
  spec: {
    selector: { matchLabels: { state: 'closed' } },
    action: 'DENY',
    rules: [{ to: [{ operation: { paths: [SECRET] } }] }],
  },
});
/** No service has the addresses of the Pods: a change of these is one of the proxies' labels only. */
const SHOP = [service('shop', 'web'), endpoints('shop', 'web', '10.5.0.8'), service('other', 'db'), DENY];

const CLOSED = { app: 'web', state: 'closed' };
const OPEN = { app: 'web' };

interface PodFields {
  readonly name?: string;
  readonly ip?: string;
  readonly account?: string;
  readonly phase?: string;
}

function pod(labels: Labels, { name = 'pod', ip = '10.5.0.1', account, phase = 'Running' }: PodFields = {}) {
  const metadata = { name, namespace: 'shop', labels };
  const spec = { containers: [], ...(account !== undefined && { serviceAccountName: account }) };
  return parse({ apiVersion: 'v1', kind: 'Pod', metadata, spec, status: { phase, podIP: ip } });
}

/** As registration writes it for the machine, in a network if one is named. */
function entry(labels: Labels, network = '') {
  const name = network === '' ? 'vm-10.5.0.1' : `vm-10.5.0.1-${network}`;
  return parse({
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'WorkloadEntry',
    metadata: { name, namespace: 'shop', annotations: { 'mesh.io/autoRegistrationGroup': 'vm' } },
    spec: { address: '10.5.0.1', serviceAccount: 'vm', labels, ...(network !== '' && { network }) },
  });
}

function group(network: string) {
  return meshResource('WorkloadGroup', 'shop', 'vm', { template: { serviceAccount: 'vm', network } });
}

function proxyOf(labels: Labels, more: Partial<ProxyNode> = {}): ProxyNode {
  return { ...sidecar('10.5.0.1', 'shop'), labels, ...more };
}

function identity(serviceAccount: string, trustDomain = 'cluster.local'): Partial<ProxyNode> {
  return { identity: { trustDomain, namespace: 'shop', serviceAccount } };
}

/** Whether requests are denied that the policy denies. */
function isClosed({ session }: Connected): boolean {
  const listeners = session.parts('lds').flatMap((part) => part.get('virtualInbound') ?? []);
  assert.equal(listeners.length, 1);
  return listeners.some((each) => Buffer.from(resourceMessage(each)).includes(SECRET));
}

async function started(node: ProxyNode, ...resources: Parameters<Mesh['change']>[0]) {
  const mesh = new Mesh(inline, [...SHOP, ...resources]);
  const proxy = mesh.connect(node);
  await ready(mesh, proxy);
  return { mesh, proxy };
}

describe('engine: labels of workloads', () => {
  it('select policies for its running proxy, and no longer when they are removed', async () => {
    const { mesh, proxy } = await started(proxyOf(OPEN), pod(OPEN));
    assert.equal(isClosed(proxy), false);
    mesh.change([pod(CLOSED)]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
    assert.deepEqual(proxy.session.node.labels, CLOSED);
    assert.equal(proxy.pushes.length, 1);
    mesh.change([pod(OPEN)]);
    await mesh.settled();
    assert.equal(isClosed(proxy), false);
    assert.deepEqual(mesh.failures, []);
  });

  it('select policies that are made later', async () => {
    const { mesh, proxy } = await started(proxyOf(OPEN), pod(OPEN));
    mesh.change([], ['AuthorizationPolicy/shop/closed']);
    mesh.change([pod(CLOSED)]);
    await mesh.settled();
    mesh.change([DENY]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
    mesh.change([], ['AuthorizationPolicy/shop/closed']);
    await mesh.settled();
    assert.equal(isClosed(proxy), false);
  });

  it('select a Sidecar', async () => {
    const narrow = meshResource('Sidecar', 'shop', 'narrow', {
      workloadSelector: { labels: { state: 'closed' } },
      egress: [{ hosts: ['shop/*'] }],
    });
    const { mesh, proxy } = await started(proxyOf(OPEN), pod(OPEN), narrow);
    const seesOther = () => content(proxy.session).cds.some(([name]) => name.includes('db.other'));
    assert.equal(seesOther(), true);
    mesh.change([pod(CLOSED)]);
    await mesh.settled();
    assert.equal(seesOther(), false);
    mesh.change([pod(OPEN)]);
    await mesh.settled();
    assert.equal(seesOther(), true);
  });

  it('that change concern no other proxy', async () => {
    const { mesh, proxy } = await started(proxyOf(OPEN), pod(OPEN), pod(OPEN, { name: 'two', ip: '10.5.0.2' }));
    const other = mesh.connect({ ...proxyOf(OPEN), addresses: ['10.5.0.2'], workload: 'two.shop' });
    await ready(mesh, proxy, other);
    mesh.change([pod(CLOSED)]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
    assert.equal(isClosed(other), false);
    assert.deepEqual(other.pushes, []);
  });

  it('that nothing selects cause no push', async () => {
    const { mesh, proxy } = await started(proxyOf(OPEN), pod(OPEN));
    mesh.change([pod({ ...OPEN, 'pod-template-hash': 'abc' })]);
    await mesh.settled();
    assert.deepEqual(proxy.pushes, []);
    assert.ok(mesh.allSettled());
  });

  it('take precedence over those that the node states, from the moment the registry has the Pod', async () => {
    const stale = await started(proxyOf(CLOSED), pod(OPEN));
    assert.equal(isClosed(stale.proxy), false);
    const { mesh, proxy } = await started(proxyOf(OPEN));
    assert.equal(isClosed(proxy), false);
    assert.equal(proxy.session.node.labelsOf, undefined);
    mesh.change([pod(CLOSED, { ip: '' })]);
    await mesh.settled();
    assert.equal(isClosed(proxy), false, 'its address is not known');
    mesh.change([pod(CLOSED)]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
    assert.equal(proxy.session.node.labelsOf, 'Pod');
  });

  it('stay in force when the Pod is deleted or ends', async () => {
    const { mesh, proxy } = await started(proxyOf(OPEN), pod(CLOSED));
    mesh.change([pod(CLOSED, { phase: 'Succeeded', ip: '' })]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
    mesh.change([], ['Pod/shop/pod']);
    await mesh.settled();
    assert.deepEqual(proxy.pushes, []);
    mesh.change([service('shop', 'another'), meshResource('Sidecar', 'shop', 'all', { egress: [{ hosts: ['*/*'] }] })]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
  });

  it('are joined with the labels that the owner of the proxy has added', async () => {
    const added = { state: 'closed', app: 'other' };
    const { mesh, proxy } = await started(proxyOf(added, { staticLabels: added }), pod(OPEN));
    assert.equal(isClosed(proxy), true);
    assert.deepEqual(proxy.session.node.labels, { app: 'web', state: 'closed' });
    mesh.change([pod({ app: 'web', state: 'open' })]);
    await mesh.settled();
    assert.equal(isClosed(proxy), false);
  });

  it('of a registered machine are those of its WorkloadEntry, joined with those that its node states', async () => {
    const { mesh, proxy } = await started(proxyOf({ own: 'x' }, { workloadGroup: 'vm', ...identity('vm') }));
    mesh.change([entry(OPEN)]);
    await mesh.settled();
    assert.equal(isClosed(proxy), false);
    assert.deepEqual(proxy.session.node.labels, { own: 'x', app: 'web' });
    mesh.change([entry(CLOSED)]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
    assert.equal(proxy.session.node.labelsOf, 'WorkloadEntry');
    mesh.change([entry({ own: 'y' })]);
    await mesh.settled();
    assert.equal(isClosed(proxy), false);
    assert.deepEqual(proxy.session.node.labels, { own: 'y' });
    mesh.change([entry({})]);
    await mesh.settled();
    assert.deepEqual(proxy.session.node.labels, { own: 'x' });
    const unproved = mesh.connect(proxyOf({ own: 'x' }, { workloadGroup: 'vm', ...identity('other') }));
    await ready(mesh, unproved);
    mesh.change([entry(CLOSED)]);
    await mesh.settled();
    assert.equal(isClosed(unproved), false);
    assert.equal(isClosed(proxy), true);
  });

  it('of a registered machine are found by the network that its group names', async () => {
    const machine = proxyOf(OPEN, { workloadGroup: 'vm', network: 'own', ...identity('vm') });
    const { mesh, proxy } = await started(machine, group('dmz'), entry(CLOSED, 'dmz'));
    assert.equal(isClosed(proxy), true);
    mesh.change([group('edge')]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true, 'until it is registered again, it keeps its labels');
    mesh.change([entry(OPEN, 'edge')], ['WorkloadEntry/shop/vm-10.5.0.1-dmz']);
    await mesh.settled();
    assert.equal(isClosed(proxy), false);
    mesh.change([entry(CLOSED, 'own')], ['WorkloadEntry/shop/vm-10.5.0.1-edge']);
    await mesh.settled();
    assert.equal(isClosed(proxy), false, 'the group still names another network');
    mesh.change([group('')]);
    await mesh.settled();
    assert.equal(isClosed(proxy), true, 'the entry came before the change of the group');
    mesh.change([group('dmz'), entry(OPEN, 'dmz')]);
    await mesh.settled();
    assert.equal(isClosed(proxy), false);
    mesh.change([], ['WorkloadGroup/shop/vm']);
    await mesh.settled();
    assert.equal(isClosed(proxy), true, 'without the group, its own network counts');
    assert.deepEqual(mesh.failures, []);
  });

  it('depend on what the node states and on the registry, and not on the order of changes', async () => {
    const stated = { own: 'x', added: 'yes' };
    const machine = proxyOf(stated, { staticLabels: { added: 'yes' }, workloadGroup: 'vm', ...identity('vm') });
    const ofPod = { added: 'yes', app: 'web', state: 'closed' };
    const ofEntry = { own: 'x', added: 'yes', app: 'vm' };
    const [inPod, registered] = [pod(CLOSED), entry({ app: 'vm' })];
    for (const order of [
      [inPod, registered],
      [registered, inPod],
    ]) {
      const { mesh, proxy } = await started(machine);
      for (const each of order) {
        mesh.change([each]);
        await mesh.settled();
      }
      assert.deepEqual(proxy.session.node.labels, ofPod, order[0]?.kind);
      assert.equal(proxy.session.node.labelsOf, 'Pod');
      mesh.change([], ['Pod/shop/pod']);
      await mesh.settled();
      assert.deepEqual(proxy.session.node.labels, ofEntry, order[0]?.kind);
      assert.equal(proxy.session.node.labelsOf, 'WorkloadEntry');
    }
    const { mesh, proxy } = await started(machine, inPod);
    mesh.change([], ['Pod/shop/pod']);
    await mesh.settled();
    assert.deepEqual(proxy.session.node.labels, ofPod);
    mesh.change([registered]);
    await mesh.settled();
    assert.deepEqual(proxy.session.node.labels, ofEntry);
  });

  it('are not those of a proxy that is not the one of the Pod', async () => {
    const others: readonly Partial<ProxyNode>[] = [
      { addresses: ['10.5.0.9'] },
      { workload: 'pod2.shop' },
      { namespace: 'other', workload: 'pod.other' },
      identity('other'),
      identity('web', 'other.domain'),
    ];
    for (const other of others) {
      const { proxy } = await started(proxyOf(OPEN, other), pod(CLOSED, { account: 'web' }));
      assert.deepEqual(proxy.session.node.labels, OPEN, JSON.stringify(other));
      assert.equal(proxy.session.node.labelsOf, undefined);
    }
    const { proxy } = await started(proxyOf(OPEN, identity('web')), pod(CLOSED, { account: 'web' }));
    assert.deepEqual(proxy.session.node.labels, CLOSED);
  });

  it('that a change would replace are those of its preview', async () => {
    const { mesh, proxy } = await started(proxyOf(OPEN), pod(OPEN));
    const touched = (after: ReturnType<typeof pod>) => {
      const changes = [{ key: keyOf(after), before: undefined, after }];
      return finish(mesh.engine.touchedBy(mesh.model.fork().apply({ changes, eventTime: 0 }), () => true));
    };
    assert.deepEqual(
      touched(pod(CLOSED)).map(({ after, placements }) => [
        after?.part,
        placements.flatMap(({ sessions }) => sessions),
      ]),
      [['inbound', [proxy.session]]],
    );
    assert.deepEqual(touched(pod({ ...OPEN, note: 'x' })), []);
    assert.deepEqual(proxy.session.node.labels, OPEN);
  });

  it('select the Gateways of a gateway, whatever its node states', async () => {
    const gateway = meshResource('Gateway', 'shop', 'edge', {
      selector: { app: 'edge' },
      servers: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
    });
    const edge = { app: 'edge' };
    const { mesh, proxy } = await started(proxyOf(edge, { type: 'router' }), pod(OPEN), gateway);
    const listeners = () => content(proxy.session).lds.length;
    assert.equal(listeners(), 0);
    mesh.change([pod(edge)]);
    await mesh.settled();
    assert.equal(listeners(), 1);
    mesh.change([pod(OPEN)]);
    await mesh.settled();
    assert.equal(listeners(), 0);
  });

  it('that change while the proxy moves lead to the last ones', async () => {
    const { mesh, generator } = heldMesh([...SHOP, pod(OPEN)]);
    const proxy = mesh.connect(proxyOf(OPEN));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([pod(CLOSED)]);
    await turns();
    assert.equal(isClosed(proxy), false, 'it has not moved');
    mesh.change([pod(OPEN)]);
    mesh.change([pod({ ...CLOSED, more: 'yes' })]);
    await turns();
    generator.held = false;
    generator.release('');
    await mesh.settled();
    assert.equal(isClosed(proxy), true);
    assert.ok(mesh.allSettled());
  });
});
