/** Writes one buffer to all of its sockets on request: the lower bound of a fan-out. */
import { createServer, type Socket } from 'node:net';

const BACKLOG = 4096;

const payload = Buffer.alloc(Number(process.argv[2]), 1);
const sockets = new Set<Socket>();
let awaited = Number.POSITIVE_INFINITY;
const server = createServer({ noDelay: true }, (socket) => {
  sockets.add(socket);
  writeWhenAll();
  socket.on('error', () => {});
  socket.once('close', () => sockets.delete(socket));
});
server.listen({ host: '127.0.0.1', port: 0, backlog: BACKLOG }, () => {
  const address = server.address();
  process.send?.(typeof address === 'object' ? address?.port : undefined);
});
/** A client counts as connected before the server has accepted its connection. */
function writeWhenAll(): void {
  if (sockets.size < awaited) return;
  awaited = Number.POSITIVE_INFINITY;
  for (const socket of sockets) socket.write(payload);
}
process.on('message', (count: number) => {
  awaited = count;
  writeWhenAll();
});
process.on('disconnect', () => process.exit(0));
process.on('SIGINT', () => {});
