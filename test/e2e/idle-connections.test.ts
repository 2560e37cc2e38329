/**
 * The HTTP addresses of ctl-discovery while a client opens as many silent connections as it can.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { createScope, type Discovery, request, startDiscovery, tempDir } from '../harness/index.ts';

/** More than any of the addresses accepts. */
const CONNECTIONS = 600;
const PROBES = 15;
const MOST_LINES = 20;

const scope = createScope();
let discovery: Discovery;

before(async () => {
  discovery = await startDiscovery(scope, { configDir: await tempDir(scope) });
});
after(() => scope.close());

async function hold(port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

const CROWDS: Readonly<Record<string, (index: number) => string>> = {
  'one address': () => '127.0.0.1',
  'many addresses': (index) => `127.0.${1 + (index >> 7)}.${1 + (index & 127)}`,
};

for (const [what, address] of Object.entries(CROWDS))
  for (const [name, path] of [
    ['http', '/ready'],
    ['monitoring', '/ready'],
    ['introspection', '/versionj'],
  ] as const)
    test(`${path} of the ${name} address is answered while ${CONNECTIONS} silent connections are opened from ${what}`, async () => {
      const port = discovery.ports[name];
      const crowd = await Promise.all(Array.from({ length: CONNECTIONS }, (_, index) => hold(port, address(index))));
      for (let probe = 0; probe < PROBES; probe++) {
        const { status } = await request({ host: '127.0.0.1', port, path });
        assert.equal(status, 200, `probe ${probe}`);
      }
      for (const socket of crowd) socket.destroy();
    });

test('the log reports it in few lines', () => {
  const lines = discovery
    .output()
    .split('\n')
    .filter((line) => line.includes('too many connections or requests'));
  // One for each address, and once more for each minute that this takes. Hundreds were refused each time.
  assert.ok(lines.length > 0 && lines.length <= MOST_LINES, lines.join('\n'));
});
