/**
 * Listens on an address with several sockets. libuv accepts one connection of a listening socket in a turn of the event
 * loop (since 1.45, https://github.com/libuv/libuv/pull/3696). In a process whose turns are long because it is busy
 * with the proxies that it has, thousands that connect at once would wait for thousands of turns. Each socket also has
 * its own queue (SO_REUSEPORT, socket(7)).
 */
import { createServer, type Server } from 'node:net';
import { type Address, listening, portOf } from '../core/network/listen.ts';

/** Connections that are accepted in one turn of the event loop. */
export const LISTENING_SOCKETS = 8;

/**
 * Accept backlog of a socket. With Node's 511, some of a thousand proxies that reconnect within 50 ms would send their
 * SYN again after a second. The kernel caps it at net.core.somaxconn.
 */
const ACCEPT_BACKLOG = 4096;

/**
 * Rejects if the address is in use, without leaving a socket open.
 * @param make a server that does not listen yet
 * @returns the servers; all of them have the same port
 */
export async function listenTogether(make: () => Server, { host, port }: Address): Promise<readonly Server[]> {
  // Other processes of the same user could share the address in this way: two instances of this program must not.
  if (port !== 0) {
    const alone = createServer();
    await listening(alone, { host, port, backlog: ACCEPT_BACKLOG });
    await close(alone);
  }
  const servers: Server[] = [];
  try {
    for (let chosen = port; servers.length < LISTENING_SOCKETS; chosen = portOf(servers[0])) {
      const server = make();
      await listening(server, { host, port: chosen, backlog: ACCEPT_BACKLOG, reusePort: true });
      servers.push(server);
    }
  } catch (error) {
    for (const server of servers) server.close();
    throw error;
  }
  return servers;
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
