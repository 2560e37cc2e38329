/**
 * A small mesh whose resources are added, removed and changed at random and refer to each other: services, endpoints,
 * entries, rules, routes, a gateway, a Sidecar, networks; and proxies of different localities and networks that see
 * different parts of it. For property tests.
 */

import { parse } from 'yaml';
import type { ProxyNode } from '../../src/core/proxy.ts';
import * as fc from '../../src/core/testing/properties.ts';
import { OIDC_REFERENCE } from '../../src/resources/key-sets.ts';
import {
  type AnyResource,
  type Kind,
  keyOf,
  type ResourceChange,
  type ResourceKey,
} from '../../src/resources/kinds/types.ts';
import { makeKeySet } from '../../src/resources/make-key-set.ts';
import {
  type MeshConfig,
  type MeshNetworks,
  parseMeshConfig,
  parseMeshNetworks,
} from '../../src/resources/mesh-config.ts';
import type { ResolvedHosts } from '../../src/resources/mesh-update.ts';
import { proxyNode, readResources } from './input.ts';
import { CLUSTER_SLOTS } from './random-mesh-clusters.ts';
import { OWNER_SLOTS } from './random-mesh-owners.ts';
import { PATCH_SLOTS } from './random-mesh-patches.ts';
import { POLICY_SLOTS } from './random-mesh-policies.ts';
import { BASIC_SLOTS, KEYS_URI } from './random-mesh-slots.ts';
import { EDITED_TELEMETRY_PROVIDERS, TELEMETRY_PROVIDERS, TELEMETRY_SLOTS } from './random-mesh-telemetry.ts';
import { TRAFFIC_SLOTS } from './random-mesh-traffic.ts';
import { WIDE_SLOTS } from './random-mesh-wide-slots.ts';

const SLOTS = [
  ...BASIC_SLOTS,
  ...WIDE_SLOTS,
  ...CLUSTER_SLOTS,
  ...OWNER_SLOTS,
  ...TELEMETRY_SLOTS,
  ...PATCH_SLOTS,
  ...TRAFFIC_SLOTS,
  ...POLICY_SLOTS,
];

const FORMS: readonly (readonly AnyResource[])[] = [
  ...SLOTS.map((forms) =>
    readResources(
      'random-mesh.ts',
      forms.map((form) => parse(form) as unknown),
    ),
  ),
  // Fetched keys appear and disappear independently of the policies that name them.
  [makeKeySet(KEYS_URI, '{"keys":["first"]}'), makeKeySet(KEYS_URI, '{"keys":["second"]}')],
  [makeKeySet(`${OIDC_REFERENCE}https://a.test`, '{"keys":[]}')],
];

/** The external authorizer of policies: a service with two forms of ports, one of which has the provider's port. */
const PROVIDERS = [
  { name: 'asked', envoyExtAuthzGrpc: { service: 'api.b.svc.cluster.local', port: 90 } },
  ...TELEMETRY_PROVIDERS,
];

const EDITED_PROVIDERS = [
  { name: 'asked', envoyExtAuthzHttp: { service: 'web.a.svc.cluster.local', port: 81 } },
  ...EDITED_TELEMETRY_PROVIDERS,
];

const PROVIDERS_BY_DEFAULT = { tracing: ['records'], accessLogging: ['log'], metrics: ['prometheus'] };

/** Possible mesh configurations; the mesh starts with the first. */
export const MESHES: readonly MeshConfig[] = [
  {},
  { outboundTrafficPolicy: { mode: 'REGISTRY_ONLY' } },
  { protocolDetectionTimeout: '3s', connectTimeout: '4s', enableAutoMtls: false },
  { trustedConfigNamespaces: ['d'] },
  { proxyHttpPort: 15_002 },
  {
    defaultProviders: PROVIDERS_BY_DEFAULT,
    defaultConfig: { tracing: { sampling: 9 } },
  },
  { defaultConfig: { tracing: { zipkin: { address: 'web.a.svc.cluster.local:81' } } } },
  {
    defaultConfig: {
      envoyAccessLogService: { address: 'api.b.svc.cluster.local:90' },
      gatewayTopology: { numTrustedProxies: 1 },
    },
  },
  { serviceSettings: [{ settings: { clusterLocal: true }, hosts: ['*.a.svc.cluster.local'] }] },
  { defaultServiceExportTo: ['.'], defaultVirtualServiceExportTo: ['.'], defaultDestinationRuleExportTo: ['.'] },
  { extensionProviders: EDITED_PROVIDERS },
  { defaultProviders: PROVIDERS_BY_DEFAULT, extensionProviders: EDITED_PROVIDERS },
  { extensionProviders: [] },
].map((fields) => meshConfig({ extensionProviders: PROVIDERS, ...fields }));

function meshConfig(raw: unknown): MeshConfig {
  const parsed = parseMeshConfig(raw);
  if ('problem' in parsed) throw new Error(parsed.problem.message);
  return parsed.value;
}

export const NODES: readonly ProxyNode[] = [
  proxyNode('web', {
    type: 'sidecar',
    address: '10.0.0.1',
    namespace: 'a',
    labels: { app: 'web' },
    network: 'n2',
    locality: 'r1/z1',
    sds: true,
    metadata: { TIER: 'gold' },
  }),
  proxyNode('client', {
    type: 'sidecar',
    address: '10.0.9.9',
    namespace: 'c',
    locality: 'r1/z1',
    tracing: { sampling: 3 },
  }),
  // Its Envoy counts requests.
  proxyNode('counting', {
    address: '10.0.0.1',
    namespace: 'a',
    labels: { app: 'web' },
    locality: 'r1/z1',
    extensions: ['envoy.access_loggers.stats', 'envoy.filters.listener.original_dst'],
  }),
  proxyNode('discovering', {
    address: '10.0.9.7',
    namespace: 'a',
    locality: 'r1/z1',
    discoversVirtualHosts: true,
    metadata: { TIER: 'other' },
    options: { http10: true, idleTimeoutMs: 9000 },
  }),
  proxyNode('other-discovering', { address: '10.0.9.6', namespace: 'd', discoversVirtualHosts: true }),
  proxyNode('repeating', { address: '10.0.9.5', namespace: 'c', locality: 'r1/z1', shortEndpointNames: true }),
  proxyNode('secure', { type: 'sidecar', address: '10.0.9.8', namespace: 'c', locality: 'r2/z1', sds: true }),
  proxyNode('far', { address: '10.0.9.4', namespace: 'a', cluster: 'far', discoversVirtualHosts: true }),
  proxyNode('far-captured', { address: '10.0.9.3', namespace: 'c', cluster: 'far', dns: 'envoy', mergesNames: true }),
  proxyNode('grpc', { address: '10.0.2.1', namespace: 'b', locality: 'r1/z1', proxyless: true }),
  proxyNode('grpc-client', { address: '10.0.9.2', namespace: 'a', labels: { app: 'web' }, proxyless: true }),
  proxyNode('unredirected', {
    type: 'sidecar',
    address: '10.0.2.1',
    namespace: 'b',
    locality: 'r1/z1',
    interception: 'NONE',
    sds: true,
  }),
  proxyNode('edge', {
    type: 'router',
    address: '10.0.8.8',
    namespace: 'b',
    labels: { app: 'edge' },
    sds: true,
    account: 'edge',
    options: { gatewayTopology: { numTrustedProxies: 2 } },
  }),
  // Claims to be the same gateway, but runs under another service account.
  proxyNode('not-edge', {
    type: 'router',
    address: '10.0.8.9',
    namespace: 'b',
    labels: { app: 'edge' },
    account: 'api',
  }),
];

/** Possible mesh networks; the mesh starts with the first. */
export const NETWORKS: readonly MeshNetworks[] = [
  undefined,
  { n2: { endpoints: [{ fromCidr: '10.0.1.0/24' }], gateways: [{ address: '192.0.2.98', port: 15443 }] } },
  { n2: { endpoints: [{ fromCidr: '10.0.2.0/24' }], gateways: [{ address: '192.0.2.99', port: 15443 }] } },
  {
    n2: {
      endpoints: [{ fromRegistry: 'far' }],
      gateways: [{ registryServiceName: 'east.b.svc.cluster.local', port: 15443 }],
    },
  },
].map((networks) => {
  const parsed = parseMeshNetworks(networks && { networks });
  if ('problem' in parsed) throw new Error(parsed.problem.message);
  return parsed.value;
});

/** Possible addresses of the host names of their gateways; at first they are not known. */
export const HOSTS: readonly ResolvedHosts[] = [
  new Map([['lb.test', ['192.0.2.95']]]),
  new Map([['lb.test', ['192.0.2.94', '2001:db8::94']]]),
  new Map([['lb.test', []]]),
];

/** The new state of a resource; undefined: removed. */
export interface Edit {
  readonly slot: number;
  readonly form: number | undefined;
}

const FORM = fc.option(fc.nat(11), { nil: undefined, freq: 4 });

/** Most resources exist at the start, because changes have effects where resources refer to each other. */
export const FIRST: fc.Arbitrary<readonly Edit[]> = fc.tuple(
  ...FORMS.map((_, index) => fc.record({ slot: fc.constant(index), form: FORM })),
);
export const STEP = stepAmong(FORMS.keys());

/** Changes of resources of one kind. */
export function stepOf(kind: Kind): fc.Arbitrary<readonly Edit[]> {
  return stepAmong(FORMS.keys().filter((slot) => FORMS[slot]?.[0]?.kind === kind));
}

function stepAmong(slots: Iterable<number>): fc.Arbitrary<readonly Edit[]> {
  const slot = fc.constantFrom(...slots);
  return fc.array(fc.record({ slot, form: FORM }), { minLength: 1, maxLength: 2 });
}

/** Resource changes of one step, each resource once. Setting a resource to its current state changes nothing. */
export function merged(changes: readonly Edit[], resources: Map<ResourceKey, AnyResource>): ResourceChange[] {
  const result = new Map<ResourceKey, ResourceChange>();
  for (const { slot, form } of changes) {
    const forms = FORMS[slot] ?? [];
    const first = forms[0];
    if (first === undefined) continue;
    const key = keyOf(first);
    const after = form === undefined ? undefined : forms[form % forms.length];
    const before = result.has(key) ? result.get(key)?.before : resources.get(key);
    if (after === undefined) resources.delete(key);
    else resources.set(key, after);
    if (before?.fingerprint === after?.fingerprint) result.delete(key);
    else result.set(key, { key, before, after });
  }
  return [...result.values()];
}
