/**
 * Connections that grant no receive window: the server can hand over nothing, closes them after its send timeout, and
 * they connect again.
 */

import { GrpcStream } from '../client/grpc-stream.ts';
import { encodeNode, sidecarNode } from '../client/node.ts';
import { DELTA_PATH } from '../client/proxy.ts';
import { asField, deltaHead } from '../client/requests.ts';
import { HOSTILE, HOSTILE_ADDRESS, type Scenario, sized, type Target } from './scenario.ts';

const RETRY_MS = 100;

function stall(index: number, target: Target): void {
  const node = encodeNode(sidecarNode({ index, namespace: HOSTILE, content: 'mtls' }));
  const stream = new GrpcStream({
    port: target.grpcPort,
    path: DELTA_PATH,
    address: HOSTILE_ADDRESS,
    window: 0,
    data: () => {},
    closed: () => void setTimeout(() => stall(index, target), RETRY_MS),
  });
  stream.send([...asField(1, node), deltaHead('cds', '')]);
  stream.send([deltaHead('lds', '')]);
}

function scenario(connections: number): Scenario {
  return {
    name: `${connections} stalled readers`,
    about: `${connections} connections of one caller with receive window 0, which reconnect when they are closed`,
    measured: 'endpoint',
    callers: async (target) => {
      for (let index = 0; index < sized(connections, target.load); index++) stall(index, target);
    },
  };
}

export const STALLED_READERS = [scenario(130), scenario(700)];
