/** Ports for a server that thousands of clients of the same machine connect to. */
import type { DiscoveryPorts } from '../test/harness/discovery.ts';
import { freePorts } from '../test/harness/files.ts';

export type ServerPorts = DiscoveryPorts & { readonly secure: number; readonly https: number };

export async function serverPorts(): Promise<ServerPorts> {
  const [grpc = 0, http = 0, monitoring = 0, introspection = 0, secure = 0, https = 0] = await freePorts(6);
  return { grpc, http, monitoring, introspection, secure, https };
}
