/** Which mutual TLS mode applies where: the rules of precedence row by row, and against an oracle without indexes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import { type AnyResource, keyOf } from '../../resources/kinds/types.ts';
import { labelsMatch } from '../common/labels.ts';
import { emptyMesh, endpoints, fqdn, meshOf, pod, resource, service, step } from '../testing/build.ts';
import { applyChanges } from '../testing/steps.ts';
import type { MutualTlsMode, Snapshot } from '../types/types.ts';
import { modeOfPort } from './peer-authentication.ts';

const WEB = { app: 'web' };
const selecting = (labels: object) => ({ selector: { matchLabels: labels } });
const mtls = (mode: string) => ({ mtls: { mode } });

function policy(path: string, spec: object, created?: number): AnyResource {
  return resource('PeerAuthentication', path, spec, created === undefined ? {} : { created });
}

function modeIn(snapshot: Snapshot, port: number, namespace = 'shop', labels: Record<string, string> = WEB) {
  return modeOfPort(snapshot.peerAuthenticationOf(namespace, labels), port);
}

/** The substitute of a refused policy, with or without a readable selector. */
function substitute(path: string, selectorKnown: boolean, more: object = {}): AnyResource {
  const made = resource('PeerAuthentication', path, { ...mtls('STRICT'), ...more });
  return { ...made, meta: { ...made.meta, substitute: selectorKnown ? 'covers' : 'overrides' } };
}

describe('the mode of port 80 of workload app=web in namespace shop', () => {
  const rows: readonly [behaviour: string, policies: readonly AnyResource[], mode: MutualTlsMode][] = [
    ['nothing said: both', [], 'PERMISSIVE'],
    ['mesh-wide: the root namespace, no selector', [policy('mesh-system/p', mtls('STRICT'))], 'STRICT'],
    ['an empty selector is none', [policy('mesh-system/p', { ...selecting({}), ...mtls('STRICT') })], 'STRICT'],
    ['namespace-wide', [policy('shop/p', mtls('DISABLE'))], 'DISABLE'],
    ['another namespace’s', [policy('other/p', mtls('STRICT'))], 'PERMISSIVE'],
    [
      'the namespace wins over the mesh',
      [policy('mesh-system/p', mtls('STRICT')), policy('shop/p', mtls('DISABLE'))],
      'DISABLE',
    ],
    ['by labels', [policy('shop/p', { ...selecting(WEB), ...mtls('STRICT') })], 'STRICT'],
    ['by other labels', [policy('shop/p', { ...selecting({ app: 'db' }), ...mtls('STRICT') })], 'PERMISSIVE'],
    [
      'the workload wins over the namespace',
      [policy('shop/a', mtls('STRICT')), policy('shop/b', { ...selecting(WEB), ...mtls('DISABLE') })],
      'DISABLE',
    ],
    [
      'a selector in the root namespace is about workloads there',
      [policy('mesh-system/p', { ...selecting(WEB), ...mtls('STRICT') })],
      'PERMISSIVE',
    ],
    [
      'UNSET and nothing inherit, level by level',
      [
        policy('mesh-system/p', mtls('STRICT')),
        policy('shop/a', mtls('UNSET')),
        policy('shop/b', { ...selecting(WEB), mtls: {} }),
      ],
      'STRICT',
    ],
    [
      'the oldest of several for the namespace',
      [policy('shop/a', mtls('STRICT'), 2), policy('shop/b', mtls('DISABLE'), 1)],
      'DISABLE',
    ],
    [
      'the oldest of several for the workload, even where it leaves fields unset',
      [
        policy('shop/a', { ...selecting(WEB), ...mtls('STRICT') }, 2),
        policy('shop/b', { ...selecting(WEB), mtls: {} }, 1),
      ],
      'PERMISSIVE',
    ],
    [
      'refused for the namespace: before all others of the namespace',
      [substitute('shop/z', true), policy('shop/a', mtls('DISABLE'))],
      'STRICT',
    ],
    [
      'refused for the namespace: the workload’s own still wins',
      [substitute('shop/z', true), policy('shop/a', { ...selecting(WEB), ...mtls('DISABLE') })],
      'DISABLE',
    ],
    [
      'refused for the workload: before others of it, on all ports',
      [
        substitute('shop/z', true, selecting(WEB)),
        policy('shop/a', { ...selecting(WEB), ...mtls('DISABLE'), portLevelMtls: { 80: { mode: 'DISABLE' } } }),
      ],
      'STRICT',
    ],
    [
      'refused for nobody knows whom in the namespace: before the workload’s own',
      [substitute('shop/z', false), policy('shop/a', { ...selecting(WEB), ...mtls('DISABLE') })],
      'STRICT',
    ],
    [
      'refused for nobody knows whom in the mesh: before all',
      [
        substitute('mesh-system/z', false),
        policy('shop/a', { ...selecting(WEB), ...mtls('DISABLE') }),
        policy('shop/b', mtls('DISABLE')),
      ],
      'STRICT',
    ],
    [
      'of the port',
      [policy('shop/p', { ...selecting(WEB), ...mtls('STRICT'), portLevelMtls: { 80: { mode: 'DISABLE' } } })],
      'DISABLE',
    ],
    [
      'of another port',
      [policy('shop/p', { ...selecting(WEB), ...mtls('STRICT'), portLevelMtls: { 81: { mode: 'DISABLE' } } })],
      'STRICT',
    ],
    [
      'a port left unset has the workload’s',
      [policy('shop/p', { ...selecting(WEB), ...mtls('STRICT'), portLevelMtls: { 80: { mode: 'UNSET' } } })],
      'STRICT',
    ],
    [
      'ports without a selector are nobody’s',
      [policy('shop/p', { ...mtls('STRICT'), portLevelMtls: { 80: { mode: 'DISABLE' } } })],
      'STRICT',
    ],
  ];
  for (const [behaviour, policies, mode] of rows) {
    test(behaviour, () => assert.equal(modeIn(meshOf(policies), 80), mode));
  }

  test('a deleted policy has no effect any more', () => {
    const strict = policy('shop/p', mtls('STRICT'));
    const before = meshOf([policy('mesh-system/p', mtls('DISABLE')), strict]);
    assert.equal(modeIn(step(before, [], [keyOf(strict)]).snapshot, 80), 'DISABLE');
  });
});

interface Written {
  readonly namespace: string;
  readonly name: string;
  readonly created: number | undefined;
  readonly selector: Record<string, string> | undefined;
  readonly mode: string | undefined;
  readonly ports: Record<number, { mode: string }> | undefined;
}

const mode = fc.constantFrom('UNSET', 'STRICT', 'PERMISSIVE', 'DISABLE');
const written: fc.Arbitrary<Written> = fc.record({
  namespace: fc.constantFrom('mesh-system', 'shop', 'other'),
  name: fc.constantFrom('a', 'b', 'c'),
  created: fc.constantFrom(undefined, 1, 2),
  selector: fc.constantFrom(undefined, undefined, {}, { app: 'web' }, { app: 'web', v: '1' }, { app: 'db' }),
  mode: fc.option(mode, { nil: undefined }),
  ports: fc.option(
    mode.map((of) => ({ 80: { mode: of } })),
    { nil: undefined },
  ),
});

/** A literal implementation of the rules of precedence: walks all policies for each question. */
function oracle(policies: readonly Written[], namespace: string, labels: Record<string, string>, port: number): string {
  const key = ({ created, namespace: of, name }: Written) => [created ?? 0, of, name] as const;
  const oldestFirst = [...policies].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    return x[0] - y[0] || (x[1] < y[1] ? -1 : x[1] > y[1] ? 1 : x[2] < y[2] ? -1 : 1);
  });
  const forAll = ({ selector }: Written) => Object.keys(selector ?? {}).length === 0;
  const said = (value: string | undefined) => (value === 'UNSET' ? undefined : value);
  const wide = (of: string) => said(oldestFirst.find((each) => each.namespace === of && forAll(each))?.mode);
  const workload = oldestFirst.find(
    (each) =>
      each.namespace === namespace &&
      !forAll(each) &&
      Object.entries(each.selector ?? {}).every(([name, value]) => labels[name] === value),
  );
  return (
    said(workload?.ports?.[port]?.mode) ??
    said(workload?.mode) ??
    wide(namespace) ??
    wide('mesh-system') ??
    'PERMISSIVE'
  );
}

function toResource({ namespace, name, created, selector, mode: of, ports }: Written): AnyResource {
  const spec = {
    ...(selector === undefined ? {} : selecting(selector)),
    ...(of === undefined ? {} : mtls(of)),
    ...(ports === undefined ? {} : { portLevelMtls: ports }),
  };
  return policy(`${namespace}/${name}`, spec, created);
}

test('property: after any changes every workload has the mode that the oracle computes', () => {
  const changes = fc.array(fc.record({ policy: written, remove: fc.boolean() }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(fc.array(changes, { minLength: 1, maxLength: 8 }), (batches) => {
      const left = new Map<string, Written>();
      let snapshot = emptyMesh();
      for (const batch of batches) {
        const resources = batch.map(({ policy: each, remove }) => {
          const after = toResource(each);
          if (remove) left.delete(keyOf(after));
          else left.set(keyOf(after), each);
          return { key: keyOf(after), before: undefined, after: remove ? undefined : after };
        });
        const next = applyChanges(snapshot, { changes: resources });
        const policies = [...left.values()];
        for (const namespace of ['mesh-system', 'shop', 'other']) {
          for (const labels of [{}, { app: 'web' }, { app: 'web', v: '1' }, { app: 'db' }] as Record<
            string,
            string
          >[]) {
            for (const port of [80, 81]) {
              const now = modeIn(next.snapshot, port, namespace, labels);
              assert.equal(now, oracle(policies, namespace, labels, port));
              const { peerAuthentication: said } = next.changes;
              const known = said.some(
                (each) =>
                  (each.namespace === undefined || each.namespace === namespace) && labelsMatch(each.labels, labels),
              );
              if (!known)
                assert.equal(now, modeIn(snapshot, port, namespace, labels), 'a change that the change set lacks');
            }
          }
        }
        snapshot = next.snapshot;
      }
    }),
    { numRuns: 300 },
  );
});

describe('what clients see of endpoints', () => {
  const proxied = (path: string, ip: string, account: string, labels: object = WEB) =>
    pod(path, ip, { labels: { ...labels, 'security.mesh.io/tlsMode': 'mesh' } }, { serviceAccountName: account });
  const MESH = [
    service('shop/web'),
    endpoints('shop/web', ['10.0.0.1', '10.0.0.2', '10.0.0.3']),
    proxied('shop/web-1', '10.0.0.1', 'web'),
    proxied('shop/web-2', '10.0.0.2', 'web', { app: 'web', v: '2' }),
    service('other/api'),
    endpoints('other/api', ['10.0.1.1']),
    proxied('other/api-1', '10.0.1.1', 'api'),
  ];
  const KEY = `shop/${fqdn('web.shop')}`;
  const OTHER = `other/${fqdn('api.other')}`;
  const ready = (snapshot: Snapshot, key = KEY) => (snapshot.endpoints.get(key) ?? []).map(({ tlsReady }) => tlsReady);

  test('endpoints with a proxy accept mutual TLS and have identities; a port records whether all of its endpoints do', () => {
    const snapshot = meshOf(MESH);
    assert.deepEqual(ready(snapshot), [true, true, false]);
    assert.deepEqual(snapshot.peers.get(KEY), { accounts: ['shop/web'], ready: { http: 'some' } });
    assert.deepEqual(snapshot.peers.get(OTHER), { accounts: ['other/api'], ready: { http: 'all' } });
  });

  test('a policy that disables it concerns its workloads and its container port, and no other service', () => {
    const off = step(meshOf(MESH), [policy('shop/p', { ...selecting({ v: '2' }), ...mtls('DISABLE') })]);
    assert.deepEqual(ready(off.snapshot), [true, false, false]);
    assert.deepEqual([...off.changes.endpoints], [KEY]);
    assert.deepEqual([...off.changes.addresses], ['/10.0.0.2']);
    assert.deepEqual([...off.changes.peers], []);
    const ofPort = (port: number) => ({ ...selecting(WEB), portLevelMtls: { [port]: { mode: 'DISABLE' } } });
    assert.deepEqual(ready(meshOf([...MESH, policy('shop/p', ofPort(8080))])), [false, false, false]);
    assert.deepEqual(ready(meshOf([...MESH, policy('shop/p', ofPort(80))])), [true, true, false]);
  });

  test('a change between STRICT and PERMISSIVE changes nothing for clients', () => {
    const { changes } = step(meshOf(MESH), [policy('mesh-system/p', mtls('STRICT'))]);
    assert.deepEqual([changes.endpoints.size, changes.peers.size, changes.addresses.size], [0, 0, 0]);
    assert.deepEqual(changes.peerAuthentication, [{ namespace: undefined, labels: {} }]);
  });

  test('disabling it for the mesh changes all workloads without a policy of their own', () => {
    const strict = meshOf([...MESH, policy('other/p', mtls('STRICT'))]);
    const { snapshot, changes } = step(strict, [policy('mesh-system/p', mtls('DISABLE'))]);
    assert.deepEqual([...changes.endpoints], [KEY]);
    assert.deepEqual(ready(snapshot, OTHER), [true]);
  });

  test('a replica with the same service account does not change the identities; one with another account does', () => {
    const more = (account: string) => [
      proxied('shop/web-3', '10.0.0.4', account),
      endpoints('shop/web', ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4']),
    ];
    assert.deepEqual([...step(meshOf(MESH), more('web')).changes.peers], []);
    const { snapshot, changes } = step(meshOf(MESH), more('web-two'));
    assert.deepEqual([...changes.peers], [KEY]);
    assert.deepEqual(snapshot.peers.get(KEY)?.accounts, ['shop/web', 'shop/web-two']);
  });

  test('endpoints without a proxy have identities, too', () => {
    const bare = pod('shop/bare', '10.0.0.3', { labels: WEB }, { serviceAccountName: 'bare' });
    assert.deepEqual(meshOf([...MESH, bare]).peers.get(KEY), {
      accounts: ['shop/bare', 'shop/web'],
      ready: { http: 'some' },
    });
  });

  test('an endpoint of a service entry belongs to its namespace; its service account may be unknown', () => {
    const labels = { 'security.mesh.io/tlsMode': 'mesh' };
    const entry = resource('ServiceEntry', 'shop/vm', {
      hosts: ['vm.example.com'],
      ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
      resolution: 'STATIC',
      endpoints: [{ address: '10.9.0.1', labels }],
    });
    const key = 'shop/vm.example.com';
    assert.deepEqual(meshOf([entry]).peers.get(key), { accounts: ['shop/'], ready: { http: 'all' } });
    assert.deepEqual(ready(meshOf([entry, policy('shop/p', mtls('DISABLE'))]), key), [false]);
  });
});
