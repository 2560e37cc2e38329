import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Caller } from '../../security/types.ts';
import { parseNode } from '../request/node.ts';
import { encodeNode } from '../testing/content.ts';
import { authorizedNode, type KnownPod, type PodFinder } from './node-authorization.ts';

const caller: Caller = {
  identity: { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' },
  by: 'certificate',
  expiresAt: 0,
};

function authorize(id: string, metadata: Readonly<Record<string, string>> = {}) {
  return authorizedNode(parseNode(encodeNode(id, metadata)), caller);
}

const OWN = 'sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local';

describe('the authorization of a node', () => {
  it('accepts the namespace and the service account of its credential', () => {
    assert.equal(authorize(OWN).serviceAccount, 'web');
    assert.deepEqual(authorize(OWN).identity, caller.identity);
    assert.equal(authorize(OWN, { NAMESPACE: 'shop', SERVICE_ACCOUNT: 'web' }).serviceAccount, 'web');
    assert.equal(authorize('sidecar~10.0.0.1~machine~local', { NAMESPACE: 'shop' }).namespace, 'shop');
  });

  const REFUSED: readonly (readonly [string, string, Readonly<Record<string, string>>, RegExp])[] = [
    ['another namespace', 'sidecar~10.0.0.1~web-1.bank~bank.svc.cluster.local', {}, /NAMESPACE: is "bank".*"shop"/],
    ['another namespace in metadata', OWN, { NAMESPACE: 'bank' }, /NAMESPACE: is "bank"/],
    ['another domain', 'sidecar~10.0.0.1~web-1.shop~bank.svc.x', { NAMESPACE: 'shop' }, /^node.id: is "bank"/],
    ['a workload elsewhere', 'sidecar~10.0.0.1~web-1.bank~shop.svc.x', {}, /^node.id: is "bank"/],
    ['another account', OWN, { SERVICE_ACCOUNT: 'admin' }, /SERVICE_ACCOUNT: is "admin".*"web"/],
  ];
  for (const [what, id, metadata, line] of REFUSED)
    it(`refuses ${what}`, () => {
      assert.throws(
        () => authorize(id, metadata),
        (error: Error & { code?: string; oneLine?: () => string }) => {
          assert.equal(error.code, 'permission_denied');
          assert.match(error.oneLine?.() ?? '', line);
          return true;
        },
      );
    });
});

/** A credential of the Pod `web-1`. */
const bound: Caller = { ...caller, by: 'token', pod: { name: 'web-1', uid: 'one' } };

const known = (changes: Partial<KnownPod> = {}, addresses: readonly string[] = ['10.0.0.1']): KnownPod => ({
  serviceAccount: 'web',
  uid: 'one',
  has: (address) => (addresses.length === 0 ? undefined : addresses.includes(address)),
  ...changes,
});

function authorizeFor(of: Caller, pod: KnownPod | undefined, id = OWN, metadata: Record<string, string> = {}) {
  const asked: (string | undefined)[] = [];
  const podOf: PodFinder = (namespace, name, cluster) => {
    asked.push(`${namespace}/${name} ${cluster}`);
    return pod;
  };
  const node = authorizedNode(parseNode(encodeNode(id, { NAMESPACE: 'shop', ...metadata })), of, podOf, 'home');
  return { ...node, asked };
}

describe('a node whose credential is bound to a Pod', () => {
  it('is that Pod, in the cluster of the credential', () => {
    const { addresses, asked } = authorizeFor(bound, known(), OWN, { CLUSTER_ID: 'elsewhere' });
    assert.deepEqual(addresses, ['10.0.0.1']);
    const remote = authorizeFor({ ...bound, pod: { name: 'web-1', uid: 'one', cluster: 'east' } }, known());
    assert.deepEqual([...asked, ...remote.asked], ['shop/web-1 undefined', 'shop/web-1 east']);
    const dotted: Caller = { ...bound, pod: { name: 'web.v1', uid: 'one' } };
    authorizeFor(dotted, undefined, 'sidecar~10.0.0.1~web.v1.shop~shop.svc.cluster.local');
  });

  it('is in the cluster that the credential proves, whatever it states', () => {
    const clusterOf = (of: Caller) => authorizeFor(of, known(), OWN, { CLUSTER_ID: 'elsewhere' }).clusterId;
    const east: Caller = { ...bound, pod: { name: 'web-1', uid: 'one', cluster: 'east' } };
    assert.deepEqual([clusterOf(bound), clusterOf(east), clusterOf(caller)], ['home', 'east', 'elsewhere']);
  });

  it('is served before the registry knows the Pod, its successor of the same name, or its address', () => {
    const elsewhere = 'sidecar~10.0.0.9~web-1.shop~shop.svc.cluster.local';
    for (const pod of [undefined, known({ uid: 'earlier', serviceAccount: 'other' }), known({}, [])])
      assert.deepEqual(authorizeFor(bound, pod, elsewhere).addresses, ['10.0.0.9']);
  });

  it('keeps of its addresses those that the Pod has', () => {
    const metadata = { INSTANCE_IPS: '10.0.0.1,fd00::1,172.17.0.1' };
    const pod = known({}, ['10.0.0.1', 'fd00::1']);
    assert.deepEqual(authorizeFor(bound, pod, OWN, metadata).addresses, ['10.0.0.1', 'fd00::1']);
  });

  const REFUSED: readonly (readonly [string, KnownPod | undefined, string, RegExp])[] = [
    [
      'another Pod',
      undefined,
      'sidecar~10.0.0.1~web-2.shop~shop.svc.cluster.local',
      /^node.id: is "web-2", .* "web-1"$/,
    ],
    ['no Pod', undefined, 'sidecar~10.0.0.1~machine~shop.svc.cluster.local', /^node.id: is "machine"/],
    [
      'the address of another Pod',
      known(),
      'sidecar~10.0.0.2~web-1.shop~shop.svc.cluster.local',
      /^node.id: "10.0.0.2" is not an address of the Pod/,
    ],
    [
      'only addresses of others',
      known({}, ['10.9.9.9']),
      'sidecar~~web-1.shop~shop.svc.cluster.local',
      /^node.metadata.INSTANCE_IPS: "10.0.0.2,10.0.0.3" is not an address of the Pod/,
    ],
  ];
  for (const [what, pod, id, line] of REFUSED)
    it(`is refused when it names ${what}`, () => {
      assert.throws(
        () => authorizeFor(bound, pod, id, { INSTANCE_IPS: '10.0.0.2,10.0.0.3' }),
        (error: { code?: string; oneLine?: () => string }) =>
          error.code === 'permission_denied' && line.test(error.oneLine?.() ?? ''),
      );
    });
});

describe('a node whose credential is bound to no Pod', () => {
  it('is refused when it is a Pod of another service account', () => {
    const metadata = { INSTANCE_IPS: '10.0.0.1,172.17.0.1' };
    for (const addresses of [['10.0.0.1'], ['172.17.0.1']])
      assert.throws(
        () => authorizeFor(caller, known({ serviceAccount: 'admin' }, addresses), OWN, metadata),
        /is "web-1 \(service account admin\)", but the credential of the stream is for "web"/,
      );
  });

  it('is served with the name of such a Pod and another address: a machine, or a successor that is not known yet', () => {
    for (const addresses of [['10.9.9.9'], []]) {
      const pod = known({ serviceAccount: 'admin' }, addresses);
      assert.deepEqual(authorizeFor(caller, pod).addresses, ['10.0.0.1']);
    }
  });

  it('is served when the document of its Pod names no service account', () => {
    assert.equal(authorizeFor(caller, known({ serviceAccount: undefined })).serviceAccount, 'web');
  });

  it('may name a Pod that is not known, and any Pod of its account', () => {
    assert.deepEqual(authorizeFor(caller, undefined).addresses, ['10.0.0.1']);
    const { addresses, asked } = authorizeFor(caller, known({ uid: 'other' }, ['10.9.9.9']), OWN, {
      CLUSTER_ID: 'west',
    });
    assert.deepEqual(addresses, ['10.0.0.1']);
    assert.deepEqual(asked, ['shop/web-1 west']);
  });
});
