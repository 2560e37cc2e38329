/** Test support: servers on a free port, whose limits no test reaches unless it sets them, and clients of gRPC. */
import { Client, credentials } from '@grpc/grpc-js';
import { createXdsServer, type XdsServer } from '../server/server.ts';
import type { XdsServerOptions } from '../server/server-options.ts';
import { quietObserver } from './engine.ts';

/** A server that is to be started and closed. */
export function testServer(options: Pick<XdsServerOptions, 'engine'> & Partial<XdsServerOptions>): XdsServer {
  return createXdsServer({
    observer: quietObserver,
    listeners: [{ host: '127.0.0.1', port: 0 }],
    maxReceiveBytes: 4 * 1024 * 1024,
    maxStreams: 1000,
    keepaliveIntervalMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    ...options,
  });
}

/** The first port of a server. */
export function portOf(server: Pick<XdsServer, 'ports'>): number {
  return server.ports()[0] ?? 0;
}

/** A client with a connection of its own, which is to be closed. */
export function clientOf(server: Pick<XdsServer, 'ports'>): Client {
  const options = { 'grpc.use_local_subchannel_pool': 1 };
  return new Client(`127.0.0.1:${portOf(server)}`, credentials.createInsecure(), options);
}
