/** The DNS server of the bench, in a process of its own. */
import {
  buildNameTable,
  createNameTable,
  createTableResolver,
  type NameEntry,
  type NameTable,
  startDnsServer,
} from '../../src/dns/index.ts';
import { nameOf, type Served, type ServerCommand } from './messages.ts';

const log = { debug() {}, info() {}, warn: console.error, error: console.error };

function* entries(names: number, version: number): Generator<readonly [string, NameEntry]> {
  for (let index = 0; index < names; index++)
    yield [nameOf(index), { ips: [`10.${version % 200}.${index >> 8}.${index & 255}`] }];
}

/** Bytes in use after a collection. */
function inUse(): number {
  globalThis.gc?.();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

let table: NameTable | undefined;
let [names, version] = [0, 0];
let timer: NodeJS.Timeout | undefined;

async function serve(): Promise<Served> {
  const before = inUse();
  table = createNameTable(entries(names, version));
  const tableMiB = (inUse() - before) / 1024 / 1024;
  const server = await startDnsServer({
    listen: [{ host: '127.0.0.1', port: 0 }],
    clients: 'local',
    log,
    resolvers: [
      createTableResolver({
        scope: () =>
          table === undefined
            ? undefined
            : { table, namespace: 'namespace-1', domain: 'svc.cluster.local', search: 'namespace-1.svc.cluster.local' },
      }),
    ],
  });
  return { port: Number(server.addresses[0]?.split(':')[1]), tableMiB };
}

process.on('message', (command: ServerCommand) => {
  if (command.op === 'serve') {
    names = command.names;
    void serve().then((served) => process.send?.(served));
    return;
  }
  clearInterval(timer);
  if (command.everyMs > 0)
    timer = setInterval(async () => {
      table = await buildNameTable(entries(names, ++version));
    }, command.everyMs);
  process.send?.('done');
});
