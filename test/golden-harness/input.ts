/**
 * The input of a golden test: `in.yaml` has a header document, followed by resources as a user writes them.
 *
 *   golden:                      # the header
 *     about: what the golden file shows
 *     newestOnly: true           # optional: what the oldest supported Envoy does not know, and is not sent
 *     unvalidated: [istio.alpn]    # optional: filters that no Envoy here has; all else is validated
 *     show: [clusters, endpoints]  # optional: the types in out.yaml (all are validated)
 *     settings: {sniffOutbound: false}  # optional: ModelSettings
 *     mesh: {…}                  # optional: mesh configuration, as in its file
 *     networks: {…}              # optional: mesh networks, as in their file
 *     hosts: {…}                 # optional: host names of their gateways, with addresses
 *     proxies:
 *       web: {address: 10.0.0.1, namespace: default}        # fields of ProxyNode, with defaults
 *       edge: {type: router, address: 10.0.0.2, namespace: mesh-system, labels: {app: gateway}}
 *
 * A document's `derived` has the fields that users cannot write (`schema/derived.ts`). It is merged into the content;
 * lists are merged item by item. Its `cluster` is the ID of another cluster that it is from.
 */
import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import {
  metadataText,
  POLICY_CLUSTER,
  POLICY_CLUSTER_METADATA,
  type ProxyNode,
  type ProxyOptions,
  SIDECAR_CONFIGURATIONS,
} from '../../src/core/proxy.ts';
import { DEFAULT_SETTINGS } from '../../src/model/testing/settings.ts';
import { applyChanges, createModel, replay } from '../../src/model/testing/steps.ts';
import type { Snapshot } from '../../src/model/types/types.ts';
import { type AnyResource, keyOf } from '../../src/resources/kinds/types.ts';
import { type MeshConfig, parseMeshConfig, parseMeshNetworks } from '../../src/resources/mesh-config.ts';
import { parseResource } from '../../src/resources/parsing/parse.ts';
import { proxyConfig } from '../../src/resources/schema/mesh-config.ts';
import { tracing } from '../../src/resources/schema/tracing.ts';
import { GatewayApiTranslator, IngressTranslator } from '../../src/translators/index.ts';

const SHOWN = [
  'clusters',
  'endpoints',
  'listeners',
  'routes',
  'virtual_hosts',
  'secrets',
  'extension_configs',
  'names',
] as const;
export type Shown = (typeof SHOWN)[number];
/** Few proxies have secrets, and few have virtual hosts as separate resources. */
const SHOWN_BY_DEFAULT: readonly Shown[] = ['clusters', 'endpoints', 'listeners', 'routes'];

const ownTracing = tracing.pick({ sampling: true, maxPathTagLength: true, customTags: true, enableIstioTags: true });

const proxy = z.strictObject({
  type: z.enum(['sidecar', 'router']).default('sidecar'),
  address: z.string(),
  addresses: z.array(z.string()).default([]),
  namespace: z.string().default('default'),
  labels: z.record(z.string(), z.string()).default({}),
  interception: z.enum(['REDIRECT', 'TPROXY', 'NONE']).default('REDIRECT'),
  /** The ID of its cluster. */
  cluster: z.string().default(DEFAULT_SETTINGS.clusterId),
  network: z.string().default(''),
  locality: z.string().default(''),
  extensions: z.array(z.string()).optional(),
  /** The version of its Envoy. */
  version: z.string().default('1.40.0'),
  meshVersion: z.string().default(''),
  /** Strings of its node metadata. */
  metadata: z.record(z.string(), z.string()).default({}),
  /** Whether the proxy has mesh certificates. */
  sds: z.boolean().default(false),
  /** Whether they come from Istio's agent. */
  istioAgent: z.boolean().default(false),
  /** Whether its agent reads the Secrets of its namespace. */
  agentReadsSecrets: z.boolean().default(false),
  /** The service account that its credential proves; absent: no credential. */
  account: z.string().optional(),
  discoversVirtualHosts: z.boolean().default(false),
  shortEndpointNames: z.boolean().default(false),
  /** Which program answers the DNS queries of its machine. */
  dns: z.enum(['agent', 'envoy']).optional(),
  /** Whether its agent merges a name table that arrives in pieces. */
  mergesNames: z.boolean().default(false),
  /** `tracing` of its own configuration. */
  tracing: ownTracing.optional(),
  /** Whether it is a gRPC application without Envoy. */
  proxyless: z.boolean().default(false),
  /** What its owner asks for in the metadata of its node. */
  options: z
    .strictObject({
      configuration: z.enum(SIDECAR_CONFIGURATIONS).optional(),
      http10: z.literal(true).optional(),
      idleTimeoutMs: z.number().optional(),
      clientFiles: z.strictObject({ certChain: z.string(), key: z.string(), roots: z.string() }).partial().optional(),
      gatewayTopology: proxyConfig.shape.gatewayTopology,
    })
    .optional(),
});

const header = z.strictObject({
  golden: z.strictObject({
    about: z.string(),
    newestOnly: z.boolean().default(false),
    unvalidated: z.array(z.string()).default([]),
    show: z.array(z.enum(SHOWN)).default([...SHOWN_BY_DEFAULT]),
    settings: z.record(z.string(), z.unknown()).default({}),
    mesh: z.unknown().optional(),
    networks: z.unknown().optional(),
    hosts: z.record(z.string(), z.array(z.string())).optional(),
    proxies: z.record(z.string(), proxy),
  }),
});

export interface GoldenInput {
  readonly snapshot: Snapshot;
  readonly proxies: ReadonlyMap<string, ProxyNode>;
  readonly show: readonly Shown[];
  readonly newestOnly: boolean;
  /** Names of filters that no Envoy here has. */
  readonly unvalidated: readonly string[];
}

/** Reads an `in.yaml`. Throws for any mistake in it, because a golden test of nothing would always pass. */
export function readInput(file: string): GoldenInput {
  return inputOf(readParts(file));
}

/** An `in.yaml` as it is written. */
export interface GoldenParts {
  readonly file: string;
  readonly golden: z.output<typeof header>['golden'];
  /** The documents after the header. */
  readonly documents: readonly unknown[];
}

export function readParts(file: string): GoldenParts {
  const documents = parseAllDocuments(readFileSync(file, 'utf8'));
  for (const { errors } of documents) if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`);
  const [first, ...rest] = documents.map((document) => document.toJS() as unknown);
  return { file, golden: header.parse(first).golden, documents: rest };
}

export function inputOf({ file, golden, documents }: GoldenParts): GoldenInput {
  return {
    snapshot: snapshotOf(golden, readResources(file, documents)),
    proxies: new Map(Object.entries(golden.proxies).map(([name, fields]) => [name, proxyNode(name, fields)])),
    show: golden.show,
    unvalidated: golden.unvalidated,
    newestOnly: golden.newestOnly,
  };
}

export function readResources(file: string, documents: readonly unknown[]): AnyResource[] {
  return documents
    .filter((document) => document !== null)
    .map((document, index) => {
      const { derived, cluster, ...written } = isObject(document) ? document : {};
      const parsed = parseResource(
        isObject(document) ? written : document,
        { source: 'golden', file },
        () => undefined,
        { index },
      );
      if ('resource' in parsed) {
        const resource =
          cluster === undefined ? parsed.resource : ofCluster(parsed.resource, z.string().parse(cluster));
        return derived === undefined ? resource : withDerived(resource, derived);
      }
      const problem = 'ignored' in parsed ? parsed.ignored : `${parsed.problem.field}: ${parsed.problem.message}`;
      throw new Error(`${file}: document ${index + 2}: ${problem}`);
    });
}

function ofCluster(resource: AnyResource, cluster: string): AnyResource {
  return { ...resource, meta: { ...resource.meta, cluster } };
}

function withDerived(resource: AnyResource, derived: unknown): AnyResource {
  return { ...resource, content: merged(resource.content, derived) } as AnyResource;
}

function merged(value: unknown, more: unknown): unknown {
  if (Array.isArray(more)) {
    const items: readonly unknown[] = Array.isArray(value) ? value : [];
    return more.map((item, index) => merged(items[index], item)).concat(items.slice(more.length));
  }
  if (!isObject(more)) return more;
  const fields = Object.entries(more).map(([name, item]) => [
    name,
    merged(isObject(value) ? value[name] : undefined, item),
  ]);
  return { ...(isObject(value) ? value : {}), ...Object.fromEntries(fields) };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function snapshotOf(golden: z.output<typeof header>['golden'], resources: readonly AnyResource[]): Snapshot {
  const mesh = parseMeshConfig(golden.mesh);
  const networks = parseMeshNetworks(golden.networks);
  if ('problem' in mesh) throw new Error(`mesh: ${mesh.problem.message}`);
  if ('problem' in networks) throw new Error(`networks: ${networks.problem.message}`);
  for (const name of Object.keys(golden.settings)) {
    if (!(name in DEFAULT_SETTINGS)) throw new Error(`settings: ${name} is not a setting of the model`);
  }
  const settings = { ...DEFAULT_SETTINGS, ...golden.settings };
  const all = [...resources, ...derivedFrom(resources, settings.domain, mesh.value)];
  const snapshot = replay(createModel(settings, mesh.value, networks.value), all);
  if (golden.hosts === undefined) return snapshot;
  return applyChanges(snapshot, { changes: [], resolvedHosts: new Map(Object.entries(golden.hosts)) }).snapshot;
}

/** The documents that are derived from those of other APIs. */
export function derivedFrom(resources: readonly AnyResource[], domain: string, mesh: MeshConfig): AnyResource[] {
  const changes = resources.map((after) => ({ key: keyOf(after), before: undefined, after }));
  const inForce = new Map(resources.map((resource) => [keyOf(resource), resource]));
  const ingress = new IngressTranslator({
    domain,
    namespace: 'edge',
    resource: (key) => inForce.get(key),
    onWarnings: () => {},
  });
  ingress.configure(mesh);
  const translators = [new GatewayApiTranslator({ domain }), ingress];
  return translators.flatMap((translator) => translator.apply(changes)).flatMap(({ after }) => after ?? []);
}

/** A node with the address and labels given. */
export function proxyNode(name: string, fields: z.input<typeof proxy>): ProxyNode {
  const parsed = proxy.parse(fields);
  const { type, address, addresses, namespace, labels, interception, network, locality, extensions } = parsed;
  const { cluster, version, meshVersion, sds, istioAgent, account, discoversVirtualHosts, shortEndpointNames, dns } =
    parsed;
  const { proxyless, agentReadsSecrets, mergesNames, tracing, metadata, options } = parsed;
  const workload = `${name}.${namespace}`;
  const dnsDomain = `${namespace}.svc.cluster.local`;
  return {
    id: `${type}~${address}~${workload}~${dnsDomain}`,
    type,
    addresses: [address, ...addresses],
    workload,
    namespace,
    dnsDomain,
    labels,
    interception,
    clusterId: cluster,
    network,
    serviceAccount: 'default',
    identity:
      account === undefined
        ? undefined
        : { trustDomain: DEFAULT_SETTINGS.trustDomain, namespace, serviceAccount: account },
    locality,
    extensions: extensions?.toSorted(),
    version,
    meshVersion,
    metadata: metadataText(new Map(Object.entries(metadata))),
    discoversVirtualHosts,
    shortEndpointNames,
    ...(tracing && { tracing }),
    sds,
    ...(istioAgent && { istioAgent }),
    ...(agentReadsSecrets && { agentReadsSecrets }),
    ...(dns && { dns }),
    ...(mergesNames && { mergesNames }),
    ...(proxyless && { proxyless }),
    ...(metadata[POLICY_CLUSTER_METADATA] === POLICY_CLUSTER && { policyCluster: true }),
    ...(options && { options: options as ProxyOptions }),
  };
}
