/** Clients that reject every response with a NACK that names no resource, so that the server has to search for it. */
import { BodyIndex } from '../client/bodies.ts';
import { BenchProxy } from '../client/proxy.ts';
import { HOSTILE, HOSTILE_ADDRESS, type Scenario, sized } from './scenario.ts';

const CLIENTS = 200;
const RETRY_MS = 100;

export const REJECTING_CLIENTS: Scenario = {
  name: `${CLIENTS} rejecting clients`,
  about: `${CLIENTS} clients of one caller that reject every response`,
  measured: 'endpoint',
  callers: async ({ grpcPort, load }) => {
    const bodies = new BodyIndex('delta');
    for (let index = 0; index < sized(CLIENTS, load); index++)
      new BenchProxy({
        index,
        namespace: HOSTILE,
        port: grpcPort,
        address: HOSTILE_ADDRESS,
        content: 'mtls',
        bodies,
        small: false,
        context: undefined,
        rejects: true,
        received: () => {},
        broken: (proxy) => void setTimeout(() => proxy.connect(), RETRY_MS),
      }).connect();
  },
};
