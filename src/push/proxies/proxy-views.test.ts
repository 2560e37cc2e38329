import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import { ASKED_EXTENSIONS } from '../../generate/index.ts';
import { replay } from '../../model/testing/steps.ts';
import type { Snapshot } from '../../model/types/types.ts';
import type { AnyResource } from '../../resources/kinds/types.ts';
import { emptyModel, endpoints, meshResource, parse, service, sidecar, snapshotOf } from '../testing/mesh.ts';
import { placementKey, placementOf, viewKey, viewsOf } from './proxy-views.ts';

const WEB = [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1', '10.0.0.2')];

function keys(snapshot: Snapshot, node: ProxyNode): string[] {
  return viewsOf(snapshot, node).map(viewKey);
}

function mesh(...more: AnyResource[]): Snapshot {
  return snapshotOf([...WEB, ...more]);
}

const router: ProxyNode = {
  ...sidecar('10.0.0.8', 'edge'),
  type: 'router',
  labels: { app: 'gateway' },
};

function gateway(name: string, app: string): AnyResource {
  const servers = [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }];
  return meshResource('Gateway', 'edge', name, { selector: { app }, servers });
}

describe('views', () => {
  it('are the same for all replicas of a workload', () => {
    assert.deepEqual(keys(mesh(), sidecar('10.0.0.1', 'shop')), keys(mesh(), sidecar('10.0.0.2', 'shop')));
  });

  it('share the outbound part among all workloads of a namespace', () => {
    const [outbound, inbound] = keys(mesh(), sidecar('10.0.0.1', 'shop'));
    const other = keys(mesh(), {
      ...sidecar('10.5.0.1', 'shop'),
      workload: 'x.shop',
      labels: { app: 'x' },
      serviceAccount: 'x',
    });
    assert.equal(other[0], outbound);
    assert.notEqual(other[1], inbound);
  });

  it('differ by how clusters name their endpoints, in the part with clusters', () => {
    for (const node of [sidecar('10.0.0.1', 'shop'), router]) {
      const names = (shortEndpointNames: boolean) => keys(mesh(), { ...node, shortEndpointNames });
      assert.notEqual(names(true)[0], names(false)[0]);
      assert.equal(names(true)[1], names(false)[1]);
    }
  });

  it('differ by whether names are sent in pieces, in the part with names', () => {
    for (const node of [sidecar('10.0.0.1', 'shop'), router]) {
      const [plain, merging] = [keys(mesh(), node), keys(mesh(), { ...node, mergesNames: true })];
      assert.notEqual(merging[0], plain[0]);
      assert.equal(merging[1], plain[1]);
    }
  });

  it('are one for all DNS suffixes that are not the namespace’s own', () => {
    const suffixed = (dnsDomain: string) => keys(mesh(), { ...sidecar('10.5.0.1', 'shop'), dnsDomain })[0];
    const foreign = suffixed('elsewhere');
    assert.equal(suffixed('other.svc.cluster.local'), foreign);
    assert.equal(suffixed('shop.svc.cluster.example'), foreign);
    assert.notEqual(suffixed('shop.svc.cluster.local'), foreign);
  });

  it('do not depend on the placement, which has networks with gateways and localities that some rule reads', () => {
    const node = sidecar('10.5.0.1', 'shop');
    const at = (snapshot: Snapshot, claim: Partial<ProxyNode>) =>
      placementKey(placementOf(snapshot, { ...node, ...claim }));
    const gateways = [{ address: '10.8.0.1', port: 15443 }];
    const networks = { networks: { near: { endpoints: [], gateways }, bare: { endpoints: [], gateways: [] } } };
    const wide = replay(emptyModel(networks as never), WEB);
    const registries = {
      near: { endpoints: [{ fromRegistry: 'here' }], gateways },
      far: { endpoints: [{ fromRegistry: 'east' }], gateways },
    };
    const clusters = replay(emptyModel({ networks: registries } as never), WEB);
    assert.equal(at(clusters, { clusterId: 'east' }), at(clusters, { network: 'far', clusterId: 'here' }));
    assert.notEqual(at(clusters, { clusterId: 'east' }), at(clusters, { clusterId: 'here' }));
    assert.equal(at(clusters, { clusterId: 'x' }), at(clusters, { clusterId: 'y' }));
    // What a proxy states counts more than its cluster, also where its network has no gateways.
    const bare = { networks: { ...registries, bare: { endpoints: [], gateways: [] } } };
    const stated = replay(emptyModel(bare as never), WEB);
    assert.equal(at(stated, { network: 'bare', clusterId: 'east' }), at(stated, { clusterId: 'unknown' }));
    assert.notEqual(at(stated, { network: 'x', clusterId: 'east' }), at(stated, { clusterId: 'unknown' }));
    assert.notEqual(at(wide, { network: 'near' }), at(wide, { network: 'x' }));
    assert.equal(at(wide, { network: 'bare' }), at(wide, { network: 'y' }));
    assert.equal(at(mesh(), { locality: 'a/b' }), at(mesh(), { locality: 'c/d' }));
    const policy = { outlierDetection: { consecutive5xxErrors: 5 } };
    const local = mesh(meshResource('DestinationRule', 'shop', 'web', { host: 'web', trafficPolicy: policy }));
    // No endpoint is anywhere: all are elsewhere.
    assert.equal(at(local, { locality: 'a/b' }), at(local, { locality: 'c/d' }));
    const distribute = [{ from: 'a/*', to: { 'a/*': 100 } }];
    const named = { loadBalancer: { localityLbSetting: { distribute } } };
    const spread = mesh(meshResource('DestinationRule', 'shop', 'web', { host: 'web', trafficPolicy: named }));
    assert.notEqual(at(spread, { locality: 'a/b' }), at(spread, { locality: 'c/d' }));
    assert.equal(at(spread, { locality: 'a/b' }), at(spread, { locality: 'a/x' }));
    for (const each of [node, router]) {
      for (const snapshot of [wide, spread]) {
        const there = { ...each, network: 'near', locality: 'a/b' };
        assert.deepEqual(keys(snapshot, there), keys(snapshot, each));
      }
    }
  });

  it('differ by labels that some virtual service matches, and only by the values that it matches', () => {
    const match = [{ sourceLabels: { version: 'v1' } as object }, { sourceLabels: { constructor: 'x' } }];
    const route = [{ destination: { host: 'web' } }];
    const asking = mesh(meshResource('VirtualService', 'shop', 'web', { hosts: ['web'], http: [{ match, route }] }));
    const labelled = (labels: Record<string, string>) => keys(asking, { ...sidecar('10.5.0.1', 'shop'), labels })[0];
    assert.notEqual(labelled({ version: 'v1' }), labelled({}));
    assert.equal(labelled({ version: 'v2' }), labelled({}));
    assert.equal(labelled({ version: 'v1', app: 'web' }), labelled({ version: 'v1' }));
  });

  it('never are shared between namespaces', () => {
    const [outbound, inbound] = keys(mesh(), sidecar('10.5.0.1', 'shop'));
    const other = keys(mesh(), { ...sidecar('10.5.0.1', 'other'), dnsDomain: 'shop.svc.cluster.local' });
    assert.notEqual(other[0], outbound);
    assert.notEqual(other[1], inbound);
  });

  it('have no data of other namespaces’ workloads, even if a proxy states their addresses', () => {
    const bound = (namespace: string) => {
      const thief = { ...sidecar('10.5.0.9', namespace), addresses: ['10.5.0.9', '10.0.0.1'] };
      return viewsOf(mesh(), thief).flatMap((view) => (view.part === 'inbound' ? view.ports : []));
    };
    assert.deepEqual(bound('other'), []);
    assert.equal(bound('shop').length, 1);
    const [edge] = viewsOf(mesh(), { ...router, addresses: ['10.0.0.1'] });
    assert.deepEqual(edge?.part === 'gateway' && edge.portMap, {});
  });

  it('have nothing of workloads with the same address on other networks', () => {
    const far = (made: AnyResource): AnyResource =>
      ({ ...made, meta: { ...made.meta, cluster: 'far' }, fingerprint: `${made.fingerprint}far` }) as AnyResource;
    const empty = emptyModel({ networks: { n2: { endpoints: [{ fromRegistry: 'far' }], gateways: [] } } });
    const api = [service('shop', 'api'), endpoints('shop', 'api', '10.0.0.1', '10.0.0.3')].map(far);
    const snapshot = replay(empty, [...WEB, ...api]);
    const bound = (node: ProxyNode) =>
      viewsOf(snapshot, node).flatMap((view) =>
        view.part === 'inbound' ? view.ports.map((port) => port.hostname) : [],
      );
    assert.deepEqual(bound(sidecar('10.0.0.1', 'shop')), ['web.shop.svc.cluster.local']);
    assert.deepEqual(bound({ ...sidecar('10.0.0.1', 'shop'), network: 'n2' }), ['api.shop.svc.cluster.local']);
    assert.deepEqual(bound(sidecar('10.0.0.3', 'shop')), []);
    assert.deepEqual(bound({ ...sidecar('10.0.0.2', 'shop'), network: 'n2' }), []);
  });

  describe('with Secrets', () => {
    const account = (serviceAccount: string, namespace = 'edge', trustDomain = 'cluster.local'): ProxyNode => ({
      ...router,
      identity: { trustDomain, namespace, serviceAccount },
    });
    const secured = (namespace: string, name: string, selector: object, tls: object = { credentialName: 'cert' }) =>
      meshResource('Gateway', namespace, name, {
        selector,
        servers: [
          { port: { number: 443, name: 'https', protocol: 'HTTPS' }, hosts: ['*'], tls: { mode: 'SIMPLE', ...tls } },
        ],
      });
    const pod = (namespace: string, app: string, serviceAccountName: string, phase = 'Running') =>
      parse({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: `${app}-1`, namespace, labels: { app } },
        spec: { serviceAccountName },
        status: { phase, podIP: '10.0.0.8' },
      });
    const entry = (namespace: string, app: string, serviceAccount: string | undefined) =>
      meshResource('WorkloadEntry', namespace, 'vm', {
        address: '10.0.0.9',
        labels: { app },
        ...(serviceAccount === undefined ? {} : { serviceAccount }),
      });
    const GATEWAY = secured('edge', 'gw', { app: 'gateway' });
    const credentialed = (node: ProxyNode, ...resources: AnyResource[]): readonly string[] => {
      const [view] = viewsOf(mesh(...resources), node);
      assert.ok(view?.part === 'gateway');
      return view.credentialed;
    };

    it('are those of a workload that is registered with its account and selected by the Gateway', () => {
      assert.deepEqual(credentialed(account('gw'), GATEWAY, pod('edge', 'gateway', 'gw')), ['edge/gw']);
      assert.deepEqual(credentialed(account('gw'), GATEWAY, entry('edge', 'gateway', 'gw')), ['edge/gw']);
      const elsewhere = secured('other', 'gw', { app: 'gateway' });
      assert.deepEqual(credentialed(account('gw'), elsewhere, pod('edge', 'gateway', 'gw')), ['other/gw']);
      const files = secured('edge', 'files', { app: 'gateway' }, { serverCertificate: '/c', privateKey: '/k' });
      assert.deepEqual(credentialed(account('gw'), files, pod('edge', 'gateway', 'gw')), []);
    });

    const POD = pod('edge', 'gateway', 'gw');
    const refused: readonly (readonly [who: string, node: ProxyNode, ...resources: AnyResource[]])[] = [
      ['a stream without identity', router, GATEWAY, POD],
      ['another account', account('side'), GATEWAY, POD, pod('edge', 'side', 'side')],
      ['an account of a foreign trust domain', account('gw', 'edge', 'other.example'), GATEWAY, POD],
      ['an identity of another namespace', account('gw', 'shop'), GATEWAY, POD, pod('shop', 'gateway', 'gw')],
      ['a workload of another namespace', account('gw'), GATEWAY, pod('shop', 'gateway', 'gw')],
      ['labels that only the node says', account('gw'), GATEWAY, pod('edge', 'web', 'gw')],
      ['a workload that has ended', account('gw'), GATEWAY, pod('edge', 'gateway', 'gw', 'Succeeded')],
      ['a workload entry of nobody', account(''), GATEWAY, entry('edge', 'gateway', undefined)],
      ['a Gateway for everybody', account('gw'), secured('edge', 'gw', {}), POD],
      ['a Gateway for others', account('gw'), secured('edge', 'gw', { app: 'other' }), POD, pod('edge', 'other', 'gw')],
    ];
    for (const [who, node, ...resources] of refused) {
      it(`are not those of ${who}`, () => assert.deepEqual(credentialed(node, ...resources), []));
    }

    it('of a client are those of a workload that any Gateway selects', () => {
      const files = secured('edge', 'files', { app: 'gateway' }, { serverCertificate: '/c', privateKey: '/k' });
      const allowed = (node: ProxyNode) => {
        const [view] = viewsOf(mesh(files, POD, pod('edge', 'side', 'side')), node);
        return view?.part === 'gateway' && view.clientCredentials;
      };
      assert.equal(allowed(account('gw')), true);
      for (const node of [router, account('side'), account('gw', 'edge', 'other.example')])
        assert.equal(allowed(node), false);
    });

    it('are shared only by those who may have the same', () => {
      const all = mesh(GATEWAY, pod('edge', 'gateway', 'gw'));
      const [own] = keys(all, account('gw'));
      assert.notEqual(own, keys(all, router)[0]);
      assert.equal(keys(all, account('side'))[0], keys(all, router)[0]);
    });
  });

  describe('under peer authentication', () => {
    const inbound = (snapshot: Snapshot, node: ProxyNode) =>
      viewsOf(snapshot, node).find(({ part }) => part === 'inbound');
    const policy = (namespace: string, spec: object) => meshResource('PeerAuthentication', namespace, 'policy', spec);
    const web = { ...sidecar('10.0.0.1', 'shop'), labels: { app: 'web' } };
    const ofWeb = { selector: { matchLabels: { app: 'web' } } };

    it('have the modes of their workload, and those of served ports that differ', () => {
      const portLevelMtls = { 80: { mode: 'DISABLE' }, 8080: { mode: 'DISABLE' }, 8081: { mode: 'DISABLE' } };
      const view = inbound(mesh(policy('shop', { ...ofWeb, mtls: { mode: 'STRICT' }, portLevelMtls })), web);
      assert.ok(view?.part === 'inbound');
      assert.deepEqual(
        view.ports.map(({ targetPort }) => targetPort),
        [8080],
      );
      assert.deepEqual(view.peerAuthentication, { mode: 'STRICT', ports: { 8080: 'DISABLE' } });
    });

    it('use the ports of a Sidecar with ingress listeners', () => {
      const ingress = [{ port: { number: 81, protocol: 'HTTP', name: 'http' }, defaultEndpoint: '127.0.0.1:81' }];
      const own = meshResource('Sidecar', 'shop', 'own', { ingress, egress: [{ hosts: ['./*'] }] });
      const portLevelMtls = { 8080: { mode: 'STRICT' }, 81: { mode: 'STRICT' } };
      const view = inbound(mesh(own, policy('shop', { ...ofWeb, portLevelMtls })), web);
      assert.ok(view?.part === 'inbound');
      assert.deepEqual(view.peerAuthentication, { mode: 'PERMISSIVE', ports: { 81: 'STRICT' } });
    });

    it('stay the same under a policy for others, or for a port that nobody serves', () => {
      const before = keys(mesh(), web);
      const others: readonly [string, object][] = [
        ['elsewhere', { mtls: { mode: 'STRICT' } }],
        ['shop', { selector: { matchLabels: { app: 'other' } }, mtls: { mode: 'STRICT' } }],
        ['shop', { ...ofWeb, portLevelMtls: { 9999: { mode: 'STRICT' } } }],
        ['mesh-system', { selector: { matchLabels: { app: 'web' } }, mtls: { mode: 'STRICT' } }],
      ];
      for (const [namespace, spec] of others) assert.deepEqual(keys(mesh(policy(namespace, spec)), web), before);
      const [outbound, own] = keys(mesh(policy('mesh-system', { mtls: { mode: 'STRICT' } })), web);
      assert.equal(outbound, before[0]);
      assert.notEqual(own, before[1]);
    });
  });

  // What generation reads of a proxy has to make another view, or one proxy would get the other's configuration.
  const reads: readonly [string, Partial<ProxyNode>, changes: readonly [outbound: boolean, inbound: boolean]][] = [
    ['the interception mode', { interception: 'TPROXY' }, [true, true]],
    ['addresses of IPv6 alone', { addresses: ['fd00::1'] }, [true, true]],
    ['addresses of both families', { addresses: ['10.5.0.1', 'fd00::1'] }, [true, true]],
    ['one more address of a family', { addresses: ['10.5.0.1', '10.5.0.2'] }, [false, false]],
    ['the DNS domain', { dnsDomain: 'shop.svc.elsewhere' }, [true, false]],
    ['a network that has no gateway', { network: 'other' }, [false, false]],
    ['a locality that nothing reads', { locality: 'region/zone' }, [false, false]],
    ['an extension that generation asks about', { extensions: ASKED_EXTENSIONS.slice(1) }, [true, true]],
    ['the workload', { workload: 'other.shop', id: 'other' }, [false, false]],
    ['the Envoy version', { version: '1.41.0' }, [false, false]],
  ];
  for (const [what, difference, changes] of reads) {
    it(`differ by ${what}: outbound ${changes[0]}, inbound ${changes[1]}`, () => {
      const plain = { ...sidecar('10.5.0.1', 'shop'), extensions: ASKED_EXTENSIONS };
      const before = keys(mesh(), plain);
      const after = keys(mesh(), { ...plain, ...difference });
      assert.deepEqual(
        before.map((key, index) => key !== after[index]),
        changes,
      );
    });
  }

  it('do not differ by extensions that generation does not read', () => {
    const plain = { ...sidecar('10.5.0.1', 'shop'), extensions: ['a.b', ...ASKED_EXTENSIONS] };
    assert.deepEqual(keys(mesh(), plain), keys(mesh(), { ...plain, extensions: [...ASKED_EXTENSIONS, 'x.y'] }));
  });

  it('differ by labels only where a virtual service looks at them', () => {
    const labelled = (v: string) => ({ ...sidecar('10.5.0.1', 'shop'), labels: { v, other: v } });
    assert.deepEqual(keys(mesh(), labelled('1')), keys(mesh(), labelled('2')));
    const route = [{ destination: { host: 'web' } }];
    const byLabel = meshResource('VirtualService', 'shop', 'web', {
      hosts: ['web'],
      http: [{ match: [{ sourceLabels: { v: '1' } }], route }],
    });
    const [one, two] = [keys(mesh(byLabel), labelled('1')), keys(mesh(byLabel), labelled('2'))];
    assert.notEqual(one[0], two[0]);
    assert.equal(one[1], two[1]);
    assert.deepEqual(
      viewsOf(mesh(byLabel), labelled('1')).flatMap((view) => ('sourceLabels' in view ? [view.sourceLabels] : [])),
      [{ v: '1' }],
    );
  });

  it('follow the Sidecar that selects the proxy', () => {
    const only = meshResource('Sidecar', 'shop', 'only', {
      workloadSelector: { labels: { app: 'web' } },
      egress: [{ hosts: ['./*'] }],
    });
    const selected = { ...sidecar('10.5.0.1', 'shop'), labels: { app: 'web' } };
    assert.ok(keys(mesh(only), selected).every((key) => key.includes(':shop/only:')));
    assert.ok(keys(mesh(only), sidecar('10.5.0.1', 'shop')).every((key) => key.includes(':shop/:')));
  });

  it('contain the addresses of a proxy only where its listeners bind to them', () => {
    const of = (address: string) => ({ ...sidecar(address, 'shop'), interception: 'NONE' as const });
    const [one, two] = [keys(mesh(), of('10.0.0.1')), keys(mesh(), of('10.0.0.2'))];
    assert.equal(one[0], two[0]);
    assert.notEqual(one[1], two[1]);
  });

  it('of a gateway name the Gateways that select it and where its own service sends their ports', () => {
    const own = service('edge', 'gateway', { clusterIP: '10.9.0.5' });
    const snapshot = mesh(
      gateway('one', 'gateway'),
      gateway('two', 'elsewhere'),
      own,
      endpoints('edge', 'gateway', '10.0.0.8'),
    );
    const [view, ...others] = viewsOf(snapshot, router);
    assert.deepEqual(others, []);
    assert.ok(view?.part === 'gateway');
    assert.deepEqual([view.gateways, view.portMap], [['edge/one'], { 80: 8080 }]);
    assert.notEqual(viewKey(view), keys(mesh(), router)[0]);
  });
});
