/**
 * Makes raw calls for a test from inside a network namespace: `node raw-main.ts SOCKET`, a Unix socket, which
 * namespaces have in common. Each line is `{id, call}` and is answered by a line `{id, answer}`, in any order. Prints
 * `ready` when it listens.
 */
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { type RawCall, rawCall } from './raw.ts';

const [path = ''] = process.argv.slice(2);
const server = createServer((socket) => {
  socket.on('error', () => socket.destroy());
  createInterface({ input: socket }).on('line', async (line) => {
    const { id, call } = JSON.parse(line) as { id: number; call: RawCall };
    const answer = await rawCall(call);
    if (!socket.destroyed) socket.write(`${JSON.stringify({ id, answer })}\n`);
  });
});
server.listen(path, () => process.stdout.write('ready\n'));
process.once('SIGTERM', () => process.exit(0));
