/**
 * A way from a network namespace to ctl-discovery that changes nothing on the host: bytes go from a TCP port inside
 * over a Unix socket, which namespaces of the network do not separate, to a loopback port outside. TLS passes through
 * untouched.
 */
import { connect, createServer, type NetConnectOpts, type Server, type Socket } from 'node:net';

/** A server, not listening yet, that connects each of its connections to `target`. */
export function createRelay(target: NetConnectOpts): Server & { destroyAll(): void } {
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ ...target, allowHalfOpen: true });
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      socket.pipe(other);
      // The other side learns of it by its own end; what happened is not a concern of the relay's.
      socket.on('error', () => other.destroy());
      socket.once('close', () => {
        open.delete(socket);
        if (socket.destroyed && !socket.readableEnded) other.destroy();
      });
    }
  });
  return Object.assign(server, {
    destroyAll() {
      for (const socket of open) socket.destroy();
    },
  });
}
