/** Entry point of the agent's connection to the control plane and of its xDS proxy. */
import { randomBytes } from 'node:crypto';
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { wallClock } from '../../core/wall-clock.ts';
import { getScope } from '../../logging/index.ts';
import { envoy } from '../../protobuf/agent/index.ts';
import type { JsonObject, JsonValue } from '../../protobuf/index.ts';
import { endWithError, type GrpcServer, openGrpcClient, type ServerStream, startGrpcServer } from '../grpc/index.ts';
import type { IdentityMetric, SecretSource } from '../types.ts';
import type { XdsPlan } from '../xds-plan.ts';
import { Connection } from './connection.ts';
import { PolicyCalls } from './policy-calls.ts';
import { Snapshot } from './snapshot.ts';
import { readSnapshot, type SnapshotOwner, snapshotPath } from './snapshot-file.ts';
import { createSnapshotSaver, type SnapshotSaver } from './snapshot-saver.ts';
import type { ControlPlaneConnection } from './types.ts';
import { createUpstream, XDS_PATHS } from './upstream.ts';

export type { ControlPlaneConnection, OwnChanges, OwnType, WorkloadHealth } from './types.ts';
export { HEALTH_TYPE, NAME_TABLE_TYPE } from './types.ts';

export interface ConnectOptions extends XdsPlan {
  /** Undefined without certificates. */
  readonly secrets: SecretSource | undefined;
}

export interface AgentConnection extends ControlPlaneConnection {
  metrics(): readonly IdentityMetric[];
}

/**
 * Starts the proxy, if there is to be one. The agent's own stream is opened when something needs it. Resolves when the
 * proxy listens, whatever the control plane's state. Rejects with CtlError for an address that is not usable.
 */
export async function connectControlPlane(options: ConnectOptions): Promise<AgentConnection> {
  const { addresses, secrets, node, delta, local } = options;
  const log = getScope('adsc');
  const variant = delta ? 'delta' : 'sotw';
  const owner: SnapshotOwner = { nodeId: String(node.id), variant };
  const clock = wallClock;
  const openClient = openGrpcClient;
  const upstream = createUpstream({ addresses, secrets, openClient, clock, random: Math.random, log });
  let saver: SnapshotSaver | undefined;
  const changed = (): void => saver?.changed();
  const path = options.savePath === '' ? undefined : await snapshotPath(options.savePath);
  const saved = path === undefined ? undefined : await loadSnapshot(path, owner, changed);
  const connection = new Connection({
    upstream,
    variant,
    nodeId: owner.nodeId,
    node: encodeNode(node),
    proxied: local !== undefined,
    hostTimeoutMs: options.hostTimeoutMs,
    snapshot: saved ?? new Snapshot(variant, clock.now(), changed),
    noncePrefix: `snapshot-${randomBytes(8).toString('hex')}`,
    clock,
    log,
  });
  if (path !== undefined) saver = createSnapshotSaver({ path, owner, snapshot: connection.snapshot, clock, log });
  const { policyId: serverId } = options;
  const policy = new PolicyCalls({ addresses, secrets, serverId, openClient, clock, random: Math.random, log });
  const server = local === undefined ? undefined : await startProxy(options, local, connection, policy);
  return {
    subscribe: (type) => connection.subscribe(type),
    reportHealth: (health) => connection.reportHealth(health),
    state: () => connection.state(),
    metrics: () => metricsOf(connection, upstream.failures(), saver?.failures() ?? 0),
    async close() {
      await server?.close();
      await policy.close();
      await connection.close();
      await saver?.close();
    },
  };
}

async function loadSnapshot(path: string, owner: SnapshotOwner, changed: () => void): Promise<Snapshot | undefined> {
  const log = getScope('adsc');
  try {
    const snapshot = await readSnapshot(path, owner, changed);
    if (snapshot !== undefined)
      log.info('a snapshot was read (XDS_SAVE)', { file: path, asOf: new Date(snapshot.asOf).toISOString() });
    return snapshot;
  } catch (error) {
    log.warn(`the snapshot is not used (XDS_SAVE): ${oneLineOf(error)}`);
    return undefined;
  }
}

function startProxy(
  { maxRequestBytes, maxStreams, socketMode }: ConnectOptions,
  local: NonNullable<XdsPlan['local']>,
  connection: Connection,
  policy: PolicyCalls,
): Promise<GrpcServer> {
  const accept = (variant: 'sotw' | 'delta') => (stream: ServerStream) =>
    connection.accept(stream, variant, (error) => endWithError(stream, error));
  return startGrpcServer({
    address: local,
    socketMode,
    methods: { [XDS_PATHS.sotw]: accept('sotw'), [XDS_PATHS.delta]: accept('delta'), ...policy.methods() },
    limits: { connections: 2 * maxStreams, streams: maxStreams, messageBytes: maxRequestBytes },
    log: getScope('adsc'),
  }).catch((error: unknown) => {
    if (!(error instanceof CtlError)) throw error;
    throw new CtlError(error.code, error.message, { ...error.location, field: 'XDS_LOCAL' }, error);
  });
}

function metricsOf(connection: Connection, failures: number, writeFailures: number): readonly IdentityMetric[] {
  const { counters, clients } = connection;
  const age = connection.snapshotAge();
  const rows: Readonly<Record<string, number>> = {
    xds_proxy_connections: clients,
    xds_proxy_requests_total: counters.requests,
    xds_proxy_responses_total: counters.responses,
    xds_proxy_rejections_total: counters.rejections,
    xds_proxy_snapshot_responses_total: counters.fromSnapshot,
    xds_proxy_unavailable_hosts_total: counters.unavailableHosts,
    xds_proxy_snapshot_write_failures_total: writeFailures,
    xds_upstream_connected: connection.state().connected ? 1 : 0,
    xds_upstream_failures_total: failures,
    ...(age === undefined ? {} : { xds_proxy_snapshot_age_seconds: Math.round(age / 1000) }),
  };
  return Object.entries(rows).map(([name, value]) => ({ name, value }));
}

type Locality = Partial<Record<'region' | 'zone' | 'sub_zone', string>>;

/**
 * The node with which the agent's own stream begins, as `envoy.config.core.v3.Node`.
 *
 * @param node its JSON form, as `nodeOf` makes it
 */
export function encodeNode(node: JsonObject): Buffer {
  const { id, cluster, metadata, locality } = node;
  const { region, zone, sub_zone: subZone }: Locality = isObject(locality) ? locality : {};
  const bytes = envoy.config.core.v3.Node.encode({
    id: String(id),
    cluster: String(cluster),
    metadata: isObject(metadata) ? toStruct(metadata) : null,
    locality: isObject(locality) ? { region, zone, subZone } : null,
    // Envoy sends `envoy` here.
    userAgentName: 'ctl-agent',
  }).finish();
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

type Struct = NonNullable<Parameters<typeof envoy.config.core.v3.Node.encode>[0]['metadata']>;
type Value = NonNullable<Struct['fields']>[string];

function toStruct(object: JsonObject): Struct {
  return { fields: Object.fromEntries(Object.entries(object).map(([key, value]) => [key, structValue(value)])) };
}

function structValue(value: JsonValue): Value {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'number') return { numberValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (value === null) return { nullValue: 0 };
  if (Array.isArray(value)) return { listValue: { values: value.map(structValue) } };
  return { structValue: toStruct(value as JsonObject) };
}
