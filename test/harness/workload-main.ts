/**
 * The application of a workload: several servers in one process, at every address of its network namespace.
 * `node workload-main.ts NAME http:8080 http2:8081 tcp:9000 quiet:9001`. Prints `ready` when all listen.
 */
import { once } from 'node:events';
import type { Server } from 'node:net';
import { http2Echo, httpEcho, quietTcpEcho, tcpEcho } from './echo-server.ts';

const SERVERS: Readonly<Record<string, (name: string) => Server>> = {
  http: httpEcho,
  http2: http2Echo,
  /** Speaks first. */
  tcp: tcpEcho,
  /** Answers only. */
  quiet: quietTcpEcho,
};

const [name = 'workload', ...specs] = process.argv.slice(2);
for (const spec of specs) {
  const [protocol = '', port] = spec.split(':');
  const server = SERVERS[protocol]?.(name);
  if (server === undefined) throw new Error(`no server for ${spec}`);
  server.listen(Number(port), '::');
  await once(server, 'listening');
}
process.stdout.write('ready\n');
process.once('SIGTERM', () => process.exit(0));
