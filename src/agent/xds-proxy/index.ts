/** Entry point of the agent's connection to the control plane and of its xDS proxy. */
import { wallClock } from '../../core/wall-clock.ts';
import { getScope } from '../../logging/index.ts';
import type { JsonObject } from '../../protobuf/index.ts';
import { openGrpcClient } from '../grpc/index.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import type { SecretSource } from '../types.ts';
import { Connection } from './connection.ts';
import { encodeNode } from './node.ts';
import type { ControlPlaneConnection } from './types.ts';
import { createUpstream } from './upstream.ts';

export type { ControlPlaneConnection, OwnType, WorkloadHealth } from './types.ts';
export { HEALTH_TYPE, NAME_TABLE_TYPE } from './types.ts';

export interface ConnectOptions {
  /** XDS_UPSTREAM or the discovery address. */
  readonly addresses: readonly ControlPlane[];
  /** Undefined without certificates. */
  readonly secrets: SecretSource | undefined;
  /** `envoy.config.core.v3.Node` of the bootstrap, JSON form. */
  readonly node: JsonObject;
  /** False for the State of the World protocol. */
  readonly delta: boolean;
}

/** Returns at once; a stream is opened when something needs it. */
export function connectControlPlane(options: ConnectOptions): ControlPlaneConnection {
  const { addresses, secrets, node, delta } = options;
  const log = getScope('adsc');
  const upstream = createUpstream({
    addresses,
    secrets,
    openClient: openGrpcClient,
    clock: wallClock,
    random: Math.random,
    log,
  });
  return new Connection({ upstream, variant: delta ? 'delta' : 'sotw', node: encodeNode(node), log });
}
