/** The server over real sockets, with Node's resolver and packets of `dns-packet` as clients. */
import assert from 'node:assert/strict';
import { Resolver } from 'node:dns/promises';
import { type TestContext, test } from 'node:test';
import { type DecodedPacket, decode, encode, type Packet } from 'dns-packet';
import { createNameTable, createTableResolver, type NameScope, startDnsServer } from '../index.ts';
import { askTcp, askUdp, opt, silentLog } from '../testing/clients.ts';

const TABLE = createNameTable([
  ['web.shop.svc.cluster.local', { ips: ['10.0.0.1', '10.0.0.2', 'fd00::1'] }],
  ['v4.shop.svc.cluster.local', { ips: ['10.0.0.3'] }],
  ['none.shop.svc.cluster.local', { ips: [] }],
  ['*.example.com', { ips: ['192.0.2.7'] }],
  ['many.shop.svc.cluster.local', { ips: Array.from({ length: 100 }, (_, index) => `10.1.0.${index}`) }],
]);
const SCOPE: NameScope = {
  table: TABLE,
  namespace: 'shop',
  domain: 'svc.cluster.local',
  search: 'shop.svc.cluster.local',
};

async function start(t: TestContext, options: { scope?: () => NameScope | undefined } = {}) {
  const { scope = () => SCOPE } = options;
  const server = await startDnsServer({
    listen: [{ host: '127.0.0.1', port: 0 }],
    clients: 'local',
    log: silentLog,
    resolvers: [createTableResolver({ scope })],
  });
  t.after(() => server.close());
  const [address = ''] = server.addresses;
  const port = Number(address.split(':')[1]);
  const resolver = new Resolver({ timeout: 2000, tries: 1 });
  resolver.setServers([address]);
  return { server, port, resolver };
}

const query = (name: string, more: Packet = {}): Buffer =>
  encode({ type: 'query', id: 7, flags: 0x100, questions: [{ name, type: 'A' }], ...more });

const codeOf = (packet: DecodedPacket): unknown => Reflect.get(packet, 'rcode');

test('addresses of both families, by the name and its short forms', async (t) => {
  const { resolver } = await start(t);
  for (const name of ['web.shop.svc.cluster.local', 'web.shop.svc', 'WEB.shop', 'web'])
    assert.deepEqual([...(await resolver.resolve4(name))].sort(), ['10.0.0.1', '10.0.0.2'], name);
  assert.deepEqual(await resolver.resolve6('web'), ['fd00::1']);
  assert.deepEqual(await resolver.resolve4('a.b.example.com'), ['192.0.2.7']);
});

test('a name without addresses of the family exists', async (t) => {
  const { resolver } = await start(t);
  for (const [name, type] of [
    ['v4.shop.svc.cluster.local', 'AAAA'],
    ['none.shop.svc.cluster.local', 'A'],
    ['web.shop.svc.cluster.local', 'TXT'],
  ] as const)
    await assert.rejects(resolver.resolve(name, type), { code: 'ENODATA' }, name);
});

test('a name with the search domain appended is answered with a CNAME record to the name', async (t) => {
  const { port } = await start(t);
  const { answers = [] } = decode(await askUdp(port, query('x.example.com.shop.svc.cluster.local')));
  assert.deepEqual(
    answers.map((answer) => ('data' in answer ? [answer.name, answer.type, answer.data] : [])),
    [
      ['x.example.com.shop.svc.cluster.local', 'CNAME', 'x.example.com'],
      ['x.example.com', 'A', '192.0.2.7'],
    ],
  );
});

test('the response repeats the case of the question', async (t) => {
  const { port } = await start(t);
  const response = decode(await askUdp(port, query('wEb.ShOp.svc.cluster.LOCAL')));
  assert.equal(response.questions?.[0]?.name, 'wEb.ShOp.svc.cluster.LOCAL');
  assert.equal(response.answers?.[0]?.name, 'wEb.ShOp.svc.cluster.LOCAL');
  assert.ok(response.flag_aa && response.flag_rd && response.flag_ra);
});

test('a response that is too long for UDP is truncated, and complete over TCP', async (t) => {
  const { port, server } = await start(t);
  const bytes = await askUdp(port, query('many.shop.svc.cluster.local'));
  assert.ok(bytes.length <= 512);
  const short = decode(bytes);
  assert.ok(short.flag_tc);
  assert.ok((short.answers?.length ?? 0) > 20, 'addresses that fit are there');
  assert.equal(server.stats.truncated, 1);
  const asked = query('many.shop.svc.cluster.local', { additionals: [opt(4096)] });
  const long = decode(await askUdp(port, asked));
  assert.equal(long.answers?.length, 100);
  assert.equal(long.additionals?.[0]?.type, 'OPT');
  const [complete] = await askTcp(port, [query('many.shop.svc.cluster.local')]);
  assert.equal(decode(complete ?? Buffer.alloc(0)).answers?.length, 100);
});

test('while names are not known every query fails', async (t) => {
  const { port } = await start(t, { scope: () => undefined });
  assert.equal(codeOf(decode(await askUdp(port, query('example.org')))), 'SERVFAIL');
});

test('queries on one connection are all answered', async (t) => {
  const { port } = await start(t);
  const queries = Array.from({ length: 100 }, (_, id) => query('web', { id }));
  const responses = await askTcp(port, queries);
  assert.deepEqual(
    responses.map((response) => response.readUInt16BE(0)).sort((a, b) => a - b),
    queries.map((_, id) => id),
  );
});
