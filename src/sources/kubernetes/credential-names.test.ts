/** Which Secrets are read where Gateways and DestinationRules name more than the limit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf } from '../../resources/index.ts';
import { CONFIG_MAPS_IN, CredentialNames, SECRETS_IN } from './credential-names.ts';
import { readObject } from './read-object.ts';

/** Credentials that Gateways of namespaces name. */
function named(credentials: Readonly<Record<string, readonly string[]>>): CredentialNames {
  const names = new CredentialNames();
  for (const [namespace, all] of Object.entries(credentials)) {
    const servers = all.map((credentialName, index) => ({
      port: { number: 8000 + index, name: `https-${index}`, protocol: 'HTTPS' },
      hosts: [`${credentialName}.example`],
      tls: { mode: 'SIMPLE', credentialName },
    }));
    const gateway = {
      apiVersion: 'networking.mesh.io/v1',
      kind: 'Gateway',
      metadata: { name: 'edge', namespace, uid: 'u', resourceVersion: '1' },
      spec: { selector: { app: 'edge' }, servers },
    };
    assert.ok(names.apply([readObject('kubernetes', 'Gateway', gateway, 0)]));
  }
  return names;
}

const NONE = (): boolean => false;

test('within the limit every Secret that is named is chosen', () => {
  const names = named({ bank: ['b'], shop: ['a'] });
  assert.equal(names.count, 4);
  assert.deepEqual(names.choose(4, NONE), ['a', 'a-cacert', 'b', 'b-cacert']);
});

test('a namespace that names many Secrets takes none from a namespace that names few', () => {
  const names = named({ greedy: ['a1', 'a2', 'a3', 'a4'], shop: ['web'] });
  assert.deepEqual(names.choose(4, NONE), ['a1', 'a1-cacert', 'web', 'web-cacert']);
});

test('a new name ends no Secret of its namespace that is followed already', () => {
  const followed = new Set(['web', 'web-cacert']);
  const names = named({ shop: ['a', 'web'] });
  assert.deepEqual(
    names.choose(2, (name) => followed.has(name)),
    ['web', 'web-cacert'],
  );
});

test('a Gateway of the Gateway API names Secrets and ConfigMaps of the core group', () => {
  const spec = {
    gatewayClassName: 'meshd',
    listeners: [
      {
        name: 'https',
        port: 443,
        protocol: 'HTTPS',
        tls: { certificateRefs: [{ name: 'a' }, { kind: 'Vault', group: 'example.com', name: 'v' }] },
      },
    ],
    tls: {
      backend: { clientCertificateRef: { name: 'b', namespace: 'shop' } },
      frontend: { default: { validation: { caCertificateRefs: [{ group: '', kind: 'ConfigMap', name: 'c' }] } } },
    },
  };
  const metadata = { name: 'edge', namespace: 'edge', uid: 'u', resourceVersion: '1' };
  const object = { apiVersion: 'gateway.networking.k8s.io/v1', kind: 'Gateway', metadata, spec };
  const event = readObject('kubernetes', 'KubernetesGateway', object, 0);
  const [secrets, configMaps] = [new CredentialNames(), new CredentialNames(CONFIG_MAPS_IN)];
  for (const names of [secrets, configMaps]) assert.ok(names.apply([event]));
  assert.deepEqual(secrets.choose(9, NONE), ['a', 'b']);
  assert.deepEqual(configMaps.choose(9, NONE), ['c']);
});

test('an Ingress names Secrets while it is of the mesh', () => {
  const object = (kind: string, name: string, spec: object) => ({
    apiVersion: 'networking.k8s.io/v1',
    kind,
    metadata: { name, uid: 'u', resourceVersion: '1', ...(kind === 'Ingress' && { namespace: 'shop' }) },
    spec,
  });
  const served = new Set(['mesh']);
  const names = new CredentialNames(SECRETS_IN, {
    servesIngress: ({ content }) => served.has(content.ingressClassName ?? ''),
  });
  for (const ingressClassName of ['mesh', 'other']) {
    const ingress = object('Ingress', ingressClassName, { ingressClassName, tls: [{ secretName: ingressClassName }] });
    assert.ok(names.apply([readObject('kubernetes', 'Ingress', ingress, 0)]));
  }
  assert.deepEqual(names.choose(9, NONE), ['mesh', 'mesh-cacert']);
  assert.equal(names.count, 2);
  served.add('other');
  const ingressClass = object('IngressClass', 'other', { controller: 'mesh.io/ingress-controller' });
  assert.ok(names.apply([readObject('kubernetes', 'IngressClass', ingressClass, 0)]), 'a class decides');
  assert.deepEqual(names.choose(9, NONE), ['mesh', 'mesh-cacert', 'other', 'other-cacert']);
});

test('a Gateway of the Gateway API names Secrets and ConfigMaps while its class is of the mesh', () => {
  const event = (kind: 'KubernetesGateway' | 'GatewayClass', name: string, spec: object) => {
    const namespaced = kind === 'KubernetesGateway';
    const metadata = { name, uid: 'u', resourceVersion: '1', ...(namespaced && { namespace: 'edge' }) };
    const object = { apiVersion: 'gateway.networking.k8s.io/v1', kind: namespaced ? 'Gateway' : kind, metadata, spec };
    return readObject('kubernetes', kind, object, 0);
  };
  const gateway = (gatewayClassName: string) =>
    event('KubernetesGateway', gatewayClassName, {
      gatewayClassName,
      listeners: [
        { name: 'a', port: 443, protocol: 'HTTPS', tls: { certificateRefs: [{ name: `${gatewayClassName}-pair` }] } },
      ],
      tls: {
        frontend: {
          default: { validation: { caCertificateRefs: [{ group: '', kind: 'ConfigMap', name: gatewayClassName }] } },
        },
      },
    });
  const served = new Set(['mesh']);
  for (const [namesIn, end] of [
    [SECRETS_IN, '-pair'],
    [CONFIG_MAPS_IN, ''],
  ] as const) {
    const names = new CredentialNames(namesIn, {
      servesGateway: ({ content }) => served.has(content.gatewayClassName),
    });
    assert.ok(names.apply([gateway('mesh'), gateway('other')]));
    assert.deepEqual(names.choose(9, NONE), [`mesh${end}`]);
    served.add('other');
    const gatewayClass = event('GatewayClass', 'other', { controllerName: 'mesh.io/gateway-controller' });
    assert.ok(names.apply([gatewayClass]), 'a class decides');
    assert.deepEqual(names.choose(9, NONE), [`mesh${end}`, `other${end}`]);
    served.delete('other');
    assert.ok(gatewayClass.type === 'set');
    const deleted = { type: 'delete', key: keyOf(gatewayClass.resource), eventTime: 0 } as const;
    assert.ok(names.apply([deleted]), 'a deleted class decides');
    assert.deepEqual(names.choose(9, NONE), [`mesh${end}`]);
  }
});
