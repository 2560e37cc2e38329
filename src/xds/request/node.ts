/**
 * Parses a proxy's node, once, when its stream begins. Anyone who reaches the port may send one: every field is
 * bounded, only fields that are used are decoded, and an error is one line. Source: envoy/config/core/v3/base.proto
 * (Node), https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/core/v3/base.proto
 */
import { isDnsLabel } from '../../core/dns-names.ts';
import { type EnvoyRelease, isAtLeast } from '../../core/envoy-version.ts';
import {
  DNS_AGENT_METADATA,
  GENERATOR_METADATA,
  GRPC_GENERATOR,
  metadataText,
  NAME_PIECES_METADATA,
  POLICY_CLUSTER,
  POLICY_CLUSTER_METADATA,
  type ProxyNode,
  SDS_CLUSTER,
  SDS_CLUSTER_METADATA,
  STATIC_LABELS_METADATA,
  USER_SDS_METADATA,
} from '../../core/proxy.ts';
import type { OwnTracing } from '../../core/tracing.ts';
import { ASKED_EXTENSIONS } from '../../generate/index.ts';
import { LENGTH_DELIMITED, WireReader } from '../../protobuf/wire/index.ts';
import { workloadLabels } from '../../resources/index.ts';
import type { ExtensionList } from '../protocol/index.ts';
import { EXTENSIONS_FIELD, type KnownExtensions } from './known-extensions.ts';
import { addressesOf } from './node-addresses.ts';
import { invalid } from './node-error.ts';
import { ExtensionReader } from './node-extensions.ts';
import { OPTION_KEYS, optionsOf, topologyOf } from './node-options.ts';
import { readTracing } from './node-tracing.ts';
import {
  boundedText,
  isOn,
  MAX_STRING_BYTES,
  stringValue,
  structEntry,
  VALUE_NULL,
  VALUE_STRING,
  VALUE_STRUCT,
} from './node-values.ts';

/**
 * Maximum size of an encoded node: an Envoy with 800 extensions, their type URLs and much metadata sends about 100 kB.
 */
export const MAX_NODE_BYTES = 512 * 1024;
/** Maximum length of a node ID: four parts with DNS names and an address. */
export const MAX_ID_BYTES = 1024;
/** Maximum number of labels, far more than workloads have in practice. */
export const MAX_LABELS = 1024;

interface RawNode {
  id: string;
  readonly metadata: Map<string, string>;
  labels: Record<string, string>;
  staticLabels: Record<string, string>;
  locality: string;
  extensions: ExtensionList | undefined;
  version: string;
  /** Metadata of `SWITCH_KEYS` that are on. */
  readonly switches: Set<string>;
  /** All short strings of the metadata, by which EnvoyFilters may select a proxy. */
  readonly strings: Map<string, string>;
  /** Whether metadata has a struct PROXY_CONFIG. */
  proxyConfig: boolean;
  /** Its `tracing`. */
  tracing: OwnTracing | undefined;
  /** Encoded, because it is only used for gateways. */
  gatewayTopology: Buffer | undefined;
}

/** Metadata keys with a string value that are read. Others are skipped. */
const STRING_KEYS: ReadonlySet<string> = new Set([
  'NAMESPACE',
  'INSTANCE_IPS',
  'CLUSTER_ID',
  'NETWORK',
  'INTERCEPTION_MODE',
  'SERVICE_ACCOUNT',
  'ISTIO_VERSION',
  'ISTIO_PROXY_SHA',
  'MESH_VERSION',
  'AUTO_REGISTER_GROUP',
  GENERATOR_METADATA,
  POLICY_CLUSTER_METADATA,
  SDS_CLUSTER_METADATA,
  ...OPTION_KEYS,
]);

/** Metadata keys of switches: see `isEnabled`. A boolean is read as well. */
const DNS_KEYS: ReadonlySet<string> = new Set([DNS_AGENT_METADATA, 'DNS_AUTO_ALLOCATE', 'DNS_CAPTURE']);
const SWITCH_KEYS: ReadonlySet<string> = new Set([...DNS_KEYS, NAME_PIECES_METADATA, USER_SDS_METADATA]);

/** @param at the path of the field, for errors */
function readLabels(value: WireReader, at: string): Record<string, string> {
  const labels: [string, string][] = [];
  for (let field = value.next(); field !== undefined; field = value.next()) {
    if (field.number === VALUE_NULL) continue;
    if (field.number !== VALUE_STRUCT) throw invalid('must be a struct of strings', at);
    const struct = value.inside(field);
    for (let entry = struct.next(); entry !== undefined; entry = struct.next()) {
      const { key, value: label } = structEntry(struct.inside(entry), at);
      if (labels.length >= MAX_LABELS) throw invalid(`more than ${MAX_LABELS} labels`, at);
      const text = label === undefined ? undefined : stringValue(label, `${at}.${key}`);
      if (text !== undefined) labels.push([key, text]);
    }
  }
  // Always own properties: `__proto__` is a label like any other.
  return Object.fromEntries(labels);
}

/** The fields of the proxy configuration that are read, and whether it is a struct. */
function readProxyConfig(value: WireReader, node: RawNode): void {
  for (let field = value.next(); field !== undefined; field = value.next()) {
    node.proxyConfig = field.number === VALUE_STRUCT;
    if (!node.proxyConfig) continue;
    const struct = value.inside(field);
    for (let entry = struct.next(); entry !== undefined; entry = struct.next()) {
      if (entry.number !== 1) continue;
      const { key, value: setting } = structEntry(struct.inside(entry), 'node.metadata.PROXY_CONFIG');
      if (key === 'tracing' && setting !== undefined) node.tracing = readTracing(setting.rest());
      if (key === 'gatewayTopology' && setting !== undefined) node.gatewayTopology = setting.rest();
    }
  }
}

function readMetadata(struct: WireReader, node: RawNode): void {
  for (let field = struct.next(); field !== undefined; field = struct.next()) {
    if (field.number !== 1) continue;
    const { key, value } = structEntry(struct.inside(field), 'node.metadata');
    if (value === undefined) continue;
    readShortString(key, structEntry(struct.inside(field), 'node.metadata').value, node.strings);
    if (key === 'LABELS') node.labels = readLabels(value, 'node.metadata.LABELS');
    else if (key === STATIC_LABELS_METADATA) node.staticLabels = readLabels(value, `node.metadata.${key}`);
    else if (key === 'PROXY_CONFIG') readProxyConfig(value, node);
    else if (SWITCH_KEYS.has(key)) {
      if (isOn(value, `node.metadata.${key}`)) node.switches.add(key);
    } else if (STRING_KEYS.has(key)) {
      const text = stringValue(value, `node.metadata.${key}`);
      if (text !== undefined) node.metadata.set(key, text);
    }
  }
}

/**
 * Limits of the metadata by which EnvoyFilters may select a proxy: length of keys and values, and their number; the
 * rest is ignored.
 */
const MAX_SHORT_STRING = 256;
const MAX_SHORT_STRINGS = 128;

function readShortString(key: string, value: WireReader | undefined, strings: Map<string, string>): void {
  if (value === undefined || key.length > MAX_SHORT_STRING || strings.size >= MAX_SHORT_STRINGS) return;
  // Only one field, because a Value has one kind.
  const field = value.next();
  if (field?.number !== VALUE_STRING || field.wireType !== LENGTH_DELIMITED) return;
  if (field.end - field.start <= MAX_SHORT_STRING) strings.set(key, value.text(field));
}

/** Locality {region 1, zone 2, sub_zone 3} as `region/zone/subzone`, without trailing empty parts. */
function readLocality(reader: WireReader): string {
  const parts = ['', '', ''];
  for (let field = reader.next(); field !== undefined; field = reader.next())
    if (field.number >= 1 && field.number <= 3)
      parts[field.number - 1] = boundedText(reader, field, MAX_STRING_BYTES, 'node.locality');
  return parts.join('/').replace(/\/+$/, '');
}

/** BuildVersion {version 1: SemanticVersion {major 1, minor 2, patch 3}}. */
function readBuildVersion(reader: WireReader): string {
  const numbers = [0, 0, 0];
  let found = false;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number !== 1) continue;
    found = true;
    const version = reader.inside(field);
    for (let part = version.next(); part !== undefined; part = version.next())
      if (part.number >= 1 && part.number <= 3) numbers[part.number - 1] = part.value;
  }
  return found ? numbers.join('.') : '';
}

function readNode(bytes: Buffer, left: ExtensionList | undefined, known: KnownExtensions | undefined): RawNode {
  const node: RawNode = {
    id: '',
    metadata: new Map(),
    strings: new Map(),
    switches: new Set(),
    labels: {},
    staticLabels: {},
    locality: '',
    extensions: undefined,
    version: '',
    proxyConfig: false,
    tracing: undefined,
    gatewayTopology: undefined,
  };
  const reader = new WireReader(bytes);
  const extensions = new ExtensionReader(left);
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === 1) node.id = boundedText(reader, field, MAX_ID_BYTES, 'node.id');
    else if (field.number === 3) readMetadata(reader.inside(field), node);
    else if (field.number === 4) node.locality = readLocality(reader.inside(field));
    else if (field.number === 8) node.version = readBuildVersion(reader.inside(field));
    else if (field.number === EXTENSIONS_FIELD) extensions.read(reader, field);
  }
  node.extensions = extensions.finish(bytes, known);
  return node;
}

function typeOf(text: string): ProxyNode['type'] {
  if (text === 'sidecar' || text === 'router') return text;
  throw invalid(`proxy type must be sidecar or router, not ${JSON.stringify(text.slice(0, 64))}`, 'node.id');
}

function interceptionOf(text: string): ProxyNode['interception'] {
  if (text === '' || text === 'REDIRECT') return 'REDIRECT';
  if (text === 'TPROXY' || text === 'NONE') return text;
  throw invalid('must be REDIRECT, TPROXY or NONE', 'node.metadata.INTERCEPTION_MODE');
}

function namespaceOf(metadata: string, domain: string): string {
  const name = metadata === '' ? (domain.split('.')[0] ?? '') : metadata;
  if (!isDnsLabel(name))
    throw invalid(
      metadata === ''
        ? 'the domain must begin with the namespace (<namespace>.svc.cluster.local), or metadata must have NAMESPACE'
        : `${JSON.stringify(name.slice(0, 64))} is not a valid namespace name`,
      metadata === '' ? 'node.id' : 'node.metadata.NAMESPACE',
    );
  return name;
}

/**
 * The oldest Envoy with which virtual host discovery over ADS was tested. Older ones refused route configurations that
 * use it (https://github.com/envoyproxy/envoy/issues/34122).
 */
const VHDS_SINCE: EnvoyRelease = [1, 40];

/**
 * Whether Istio's `pilot-agent` wrote the bootstrap. Its bootstrap always has the cluster {@link SDS_CLUSTER}
 * (tools/packaging/common/envoy_bootstrap.json of Istio 1.5 and later) without declaring it. All its versions send
 * PROXY_CONFIG, and its images the hash of their Envoy. A version alone is not sufficient: custom bootstraps may
 * contain ISTIO_VERSION. This project's agent sends MESH_VERSION.
 */
function isOfIstioAgent({ metadata, proxyConfig }: RawNode): boolean {
  if (metadata.get('MESH_VERSION')) return false;
  return proxyConfig || Boolean(metadata.get('ISTIO_PROXY_SHA'));
}

/** The first release of Istio whose agent resolves DNS queries itself, from the name table. */
const ISTIO_AGENT_ANSWERS: EnvoyRelease = [1, 8];

/**
 * The program that resolves the names of the mesh in the machine's DNS queries. With DNS_CAPTURE it is Envoy, unless
 * the agent resolves them: Istio's agent since 1.8, and this project's agent with DNS_AGENT.
 */
function dnsOf({ metadata, switches }: RawNode, istioAgent: boolean): ProxyNode['dns'] {
  if (switches.isDisjointFrom(DNS_KEYS)) return undefined;
  if (switches.has(DNS_AGENT_METADATA) || !switches.has('DNS_CAPTURE')) return 'agent';
  const version = metadata.get('ISTIO_VERSION') ?? '';
  const isOlder = /^\d/.test(version) && !isAtLeast(version, ISTIO_AGENT_ANSWERS);
  return istioAgent && !isOlder ? 'agent' : 'envoy';
}

/**
 * Parses an encoded `envoy.config.core.v3.Node`. Throws CtlError `invalid_argument` that names the field and what was
 * expected. Unknown metadata keys are ignored, null values count as absent.
 *
 * @param left extensions that were left out of the bytes, because they were known
 * @param known learns the extensions of the bytes
 */
export function parseNode(bytes: Buffer | undefined, left?: ExtensionList, known?: KnownExtensions): ProxyNode {
  if (bytes === undefined || bytes.length === 0) throw invalid('the first request of a stream must carry the node');
  if (bytes.length > MAX_NODE_BYTES) throw invalid(`larger than ${MAX_NODE_BYTES} bytes`);
  const raw = readNode(bytes, left, known);
  const parts = raw.id.split('~');
  const [typeText, address, workload, dnsDomain] = parts;
  if (parts.length !== 4 || typeText === undefined || address === undefined || !workload || !dnsDomain)
    throw invalid('must be <type>~<ip>~<pod>.<namespace>~<namespace>.svc.<domain>', 'node.id');
  const type = typeOf(typeText);
  const text = (key: string): string => raw.metadata.get(key) ?? '';
  const addresses = addressesOf(address, text('INSTANCE_IPS'));
  if (type === 'sidecar' && addresses.length === 0) throw invalid('a sidecar needs an IP address', 'node.id');
  const istioAgent = isOfIstioAgent(raw) && text(SDS_CLUSTER_METADATA) === '';
  const declaresSds = text(SDS_CLUSTER_METADATA) === SDS_CLUSTER;
  const dns = type === 'sidecar' ? dnsOf(raw, isOfIstioAgent(raw)) : undefined;
  const topology = type === 'router' && raw.gatewayTopology !== undefined ? topologyOf(raw.gatewayTopology) : undefined;
  const options = optionsOf(text, topology);
  return {
    id: raw.id,
    type,
    addresses,
    workload,
    namespace: namespaceOf(text('NAMESPACE'), dnsDomain),
    dnsDomain,
    labels: workloadLabels(raw.labels),
    ...(Object.keys(raw.staticLabels).length > 0 && { staticLabels: workloadLabels(raw.staticLabels) }),
    interception: interceptionOf(text('INTERCEPTION_MODE')),
    clusterId: text('CLUSTER_ID'),
    network: text('NETWORK'),
    serviceAccount: text('SERVICE_ACCOUNT'),
    identity: undefined,
    locality: raw.locality,
    extensions: raw.extensions && ASKED_EXTENSIONS.filter((name) => raw.extensions?.checked.has(name)),
    version: raw.version,
    meshVersion: text('MESH_VERSION') || text('ISTIO_VERSION'),
    metadata: metadataText(raw.strings),
    discoversVirtualHosts: isAtLeast(raw.version, VHDS_SINCE),
    shortEndpointNames: false,
    sds: istioAgent || declaresSds,
    // Istio's agents serve such secrets under other names.
    ...(type === 'router' && declaresSds && raw.switches.has(USER_SDS_METADATA) && { agentReadsSecrets: true }),
    ...(text('AUTO_REGISTER_GROUP') !== '' && { workloadGroup: text('AUTO_REGISTER_GROUP') }),
    ...(istioAgent && { istioAgent }),
    ...(text(POLICY_CLUSTER_METADATA) === POLICY_CLUSTER && { policyCluster: true }),
    ...(dns && { dns }),
    ...(raw.switches.has(NAME_PIECES_METADATA) && { mergesNames: true }),
    ...(raw.tracing && { tracing: raw.tracing }),
    ...(options && { options }),
    ...(type === 'sidecar' && text(GENERATOR_METADATA) === GRPC_GENERATOR && { proxyless: true }),
  };
}
