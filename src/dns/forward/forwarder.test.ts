/** The forwarder against servers that answer late, wrongly or not at all, over real sockets. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Answer, decode, encode, type Packet } from 'dns-packet';
import { eventually } from '../../../test/harness/eventually.ts';
import { createForwarder, type ForwarderOptions, resolvConfUpstream } from '../index.ts';
import { opt, recordingLog } from '../testing/clients.ts';
import { a, soa, startUpstream, type UpstreamQuery } from '../testing/upstream.ts';
import type { DnsClient } from '../types.ts';
import { readQuery } from '../wire/query.ts';
import { NO_RESOLV_CONF, type ResolvConf } from './resolv-conf.ts';

const CLIENT: DnsClient = { protocol: 'udp', address: '127.0.0.1', port: 4000, identity: undefined };
const TC = 0x200;
const [SERVFAIL, NXDOMAIN] = [2, 3];

interface Options {
  readonly conf?: Partial<ResolvConf>;
  readonly limits?: ForwarderOptions['limits'];
  readonly tcp?: boolean;
}

async function start(t: TestContext, answer: (query: UpstreamQuery) => void, options: Options = {}) {
  const upstream = await startUpstream(t, answer, options.tcp === undefined ? {} : { tcp: options.tcp });
  const log = recordingLog();
  const clock = { ms: 0 };
  let conf: ResolvConf = { ...NO_RESOLV_CONF, servers: ['127.0.0.1'], ...options.conf };
  const forwarder = createForwarder({
    upstream: resolvConfUpstream({
      conf: { current: () => conf },
      port: upstream.port,
      isOwn: (host) => host === '127.0.0.9',
      log,
    }),
    limits: options.limits ?? {},
    log,
    now: () => performance.now() + clock.ms,
  });
  t.after(() => forwarder.close());
  const ask = async (name: string, more: Packet = {}, client = CLIENT) => {
    const query = readQuery(encode({ type: 'query', id: 9, flags: 0x100, questions: [{ name, type: 'A' }], ...more }));
    assert.ok('bytes' in query);
    const response = await forwarder.resolve(query, client, () => assert.fail('the forwarder is the last resolver'));
    const packet = decode(response);
    assert.equal(packet.id, 9);
    assert.equal(packet.questions?.[0]?.name, name);
    return { ...packet, rcode: Number(packet.flags) & 0xf, ips: ipsOf(packet.answers) };
  };
  const pass = (seconds: number) => {
    clock.ms += seconds * 1000;
  };
  return {
    upstream,
    forwarder,
    log,
    ask,
    pass,
    setConf: (next: Partial<ResolvConf>) => {
      conf = { ...conf, ...next };
    },
  };
}

const ipsOf = (answers: readonly Answer[] = []) =>
  answers.flatMap((answer) => (answer.type === 'A' && 'data' in answer ? [answer.data] : []));

const answering = (query: UpstreamQuery) => query.reply([a(query.name, '192.0.2.1')]);

test('each query has its own id and source port', async (t) => {
  const { upstream, ask } = await start(t, answering);
  for (let index = 0; index < 20; index++) assert.deepEqual((await ask(`n${index}.example.com`)).ips, ['192.0.2.1']);
  for (const pick of [(query: UpstreamQuery) => query.packet.id, (query: UpstreamQuery) => query.port]) {
    const values = upstream.queries.map((query) => Number(pick(query)));
    assert.ok(new Set(values).size > 10, `differ: ${values.join()}`);
    const steps = new Set(values.map((value, index) => value - (values[index - 1] ?? 0)));
    assert.ok(steps.size > 5, `cannot be predicted: ${values.join()}`);
  }
});

test('responses with another id or question are ignored, and the right one is still awaited', async (t) => {
  const { ask } = await start(t, (query) => {
    query.reply([a(query.name, '6.6.6.6')], { id: ((query.packet.id ?? 0) + 1) & 0xffff });
    query.reply([a('evil.example.com', '6.6.6.6')], { name: 'evil.example.com' });
    query.send(encode({ ...query.packet, answers: [] }));
    query.send(Buffer.from([1, 2, 3]));
    query.reply([a(query.name, '192.0.2.1')]);
  });
  assert.deepEqual((await ask('www.example.com')).ips, ['192.0.2.1']);
});

test('the case of the name goes to the server, and each client gets its own back', async (t) => {
  const { upstream, ask } = await start(t, answering);
  await ask('WwW.Example.com');
  await ask('www.EXAMPLE.com');
  assert.deepEqual(
    upstream.queries.map(({ name }) => name),
    ['WwW.Example.com'],
    'one cache entry for both',
  );
});

test('a truncated response is fetched over TCP, on one connection for several', async (t) => {
  const { upstream, ask } = await start(t, (query) => {
    if (query.protocol === 'udp') query.reply([], { flags: TC });
    else query.reply([a(query.name, '192.0.2.2')]);
  });
  for (const name of ['one.example.com', 'two.example.com']) {
    const { ips, flag_tc } = await ask(name);
    assert.deepEqual([ips, flag_tc], [['192.0.2.2'], false]);
  }
  const ports = upstream.queries.filter(({ protocol }) => protocol === 'tcp').map(({ port }) => port);
  assert.equal(ports.length, 2);
  assert.equal(new Set(ports).size, 1);
});

test('a truncated response is passed on when the server has no TCP, and not cached', async (t) => {
  const truncatedReply = (query: UpstreamQuery) => query.reply([a(query.name, '192.0.2.2')], { flags: TC });
  const { upstream, ask } = await start(t, truncatedReply, { tcp: false });
  for (let count = 1; count <= 2; count++) {
    assert.ok((await ask('big.example.com')).flag_tc);
    assert.equal(upstream.queries.length, count);
  }
});

test('a server that does not answer is asked after the next one', async (t) => {
  const { upstream, ask } = await start(t, answering, {
    conf: { servers: ['127.0.0.2', '127.0.0.1'], timeoutMs: 200 },
  });
  assert.deepEqual((await ask('one.example.com')).ips, ['192.0.2.1']);
  assert.equal(upstream.queries.length, 1);
});

test('a server that cannot be reached at all is passed over', async (t) => {
  const { ask } = await start(t, answering, {
    conf: { servers: ['fe80::1%absent0', '2001:db8::1', '127.0.0.1'], timeoutMs: 500 },
  });
  assert.deepEqual((await ask('one.example.com')).ips, ['192.0.2.1']);
});

test('a server that refuses is not asked twice; its answer is better than none', async (t) => {
  const { upstream, ask } = await start(t, (query) => query.reply([], { flags: SERVFAIL }), { conf: { attempts: 3 } });
  assert.equal((await ask('www.example.com')).rcode, SERVFAIL);
  assert.equal(upstream.queries.length, 1);
  await ask('www.example.com');
  assert.equal(upstream.queries.length, 2, 'a failure is not cached');
});

test('without an answer the query fails after all attempts, with one line in the log', async (t) => {
  const { upstream, ask, log, forwarder } = await start(t, () => undefined, { conf: { timeoutMs: 50, attempts: 2 } });
  for (const name of ['one.example.com', 'two.example.com'])
    await assert.rejects(ask(name), /no response within 50 ms/);
  assert.equal(upstream.queries.length, 4);
  assert.equal(forwarder.stats.upstreamFailures, 4);
  assert.equal(log.lines.filter((line) => line.startsWith('warn')).length, 1, log.lines.join('\n'));
});

test('a server that does not know EDNS is asked without it', async (t) => {
  const edns: Packet = { additionals: [opt(4096)] };
  const { upstream, ask } = await start(t, (query) => {
    if (query.packet.additionals?.length === 0) answering(query);
    else query.reply([], { flags: 1 });
  });
  assert.deepEqual((await ask('www.example.com', edns)).ips, ['192.0.2.1']);
  assert.equal(upstream.queries.length, 2);
});

test('the OPT record of the server does not reach the client', async (t) => {
  const { ask } = await start(t, (query) =>
    query.reply([a(query.name, '192.0.2.1')], {
      additionals: [a('ns.example.com', '192.0.2.9'), opt(4096)],
    }),
  );
  const { additionals, ips } = await ask('www.example.com');
  assert.deepEqual(ips, ['192.0.2.1']);
  assert.deepEqual(
    additionals?.map(({ type }) => type),
    ['A'],
  );
});

test('equal questions at once are one query upstream', async (t) => {
  const waiting: UpstreamQuery[] = [];
  const { upstream, ask } = await start(t, (query) => void waiting.push(query));
  const asked = Array.from({ length: 50 }, () => ask('www.example.com'));
  while (waiting.length === 0) await new Promise(setImmediate);
  for (const query of waiting) answering(query);
  for (const { ips } of await Promise.all(asked)) assert.deepEqual(ips, ['192.0.2.1']);
  assert.equal(upstream.queries.length, 1);
});

test('a client may have half of the queries in flight, and others are served meanwhile', async (t) => {
  const { ask } = await start(
    t,
    (query) => {
      if (!query.name.startsWith('slow')) answering(query);
    },
    { limits: { maxInFlight: 4 }, conf: { timeoutMs: 500, attempts: 1 } },
  );
  const slow = ['slow1.com', 'slow2.com', 'slow3.com'].map((name) => assert.rejects(ask(name)));
  await assert.rejects(ask('more.com'), /too many names/);
  assert.deepEqual((await ask('other.com', {}, { ...CLIENT, address: '127.0.0.2' })).ips, ['192.0.2.1']);
  await Promise.all(slow);
  assert.deepEqual((await ask('more.com')).ips, ['192.0.2.1']);
});

test('queries that wait for the same answer are limited too, and others are served meanwhile', async (t) => {
  const asked: UpstreamQuery[] = [];
  const { ask } = await start(t, (query) => void asked.push(query), { limits: { maxWaiting: 4 } });
  const waiting = [ask('slow.example.com'), ask('slow.example.com')];
  await assert.rejects(ask('slow.example.com'), { code: 'resource_exhausted' });
  const other = ask('slow.example.com', {}, { ...CLIENT, address: '127.0.0.2' });
  await eventually(() => assert.equal(asked.length, 1));
  asked[0]?.reply([a('slow.example.com', '192.0.2.7')]);
  for (const { ips } of await Promise.all([...waiting, other])) assert.deepEqual(ips, ['192.0.2.7']);
  assert.deepEqual((await ask('slow.example.com')).ips, ['192.0.2.7'], 'limited no longer');
});

test('a connection on which nothing arrives any more is replaced, even while newer queries wait on it', async (t) => {
  let first: number | undefined;
  const silent = new Set<string>();
  const { ask, setConf, upstream } = await start(
    t,
    (query) => {
      first ??= query.port;
      if (query.port === first && silent.has(query.name)) return;
      answering(query);
    },
    { conf: { tcp: true, timeoutMs: 200, attempts: 1 } },
  );
  await ask('www.example.com');
  for (const name of ['lost.example.com', 'next.example.com']) silent.add(name);
  const lost = assert.rejects(ask('lost.example.com'), /no response within 200 ms/);
  setConf({ timeoutMs: 15_000 });
  const next = ask('next.example.com');
  await lost;
  assert.deepEqual((await next).ips, ['192.0.2.1']);
  assert.equal(new Set(upstream.queries.map(({ port }) => port)).size, 2);
});

test('a response is cached for its shortest TTL, which counts down', async (t) => {
  const { upstream, ask, pass } = await start(t, (query) =>
    query.reply([a(query.name, '192.0.2.1', 100), a(query.name, '192.0.2.2', 40)]),
  );
  const ttls = async () => (await ask('www.example.com')).answers?.map((answer) => ('ttl' in answer ? answer.ttl : -1));
  assert.deepEqual(await ttls(), [100, 40]);
  pass(30);
  assert.deepEqual(await ttls(), [70, 10]);
  assert.equal(upstream.queries.length, 1);
  pass(11);
  assert.deepEqual(await ttls(), [100, 40]);
  assert.equal(upstream.queries.length, 2);
});

test('a negative response is cached for the minimum of its SOA record, and not without one', async (t) => {
  const { upstream, ask, pass } = await start(t, (query) =>
    query.reply([], {
      flags: NXDOMAIN,
      authorities: query.name.startsWith('with') ? [soa('example.com', 3600, 20)] : [],
    }),
  );
  const asked = async (name: string) => {
    assert.equal((await ask(name)).rcode, NXDOMAIN);
    return upstream.queries.length;
  };
  assert.equal(await asked('with.example.com'), 1);
  pass(19);
  assert.equal(await asked('with.example.com'), 1);
  pass(2);
  assert.equal(await asked('with.example.com'), 2);
  assert.equal(await asked('no.example.com'), 3);
  assert.equal(await asked('no.example.com'), 4);
});

test('the cache is bounded by entries and by bytes', async (t) => {
  const { ask, forwarder } = await start(t, answering, { limits: { maxEntries: 10, maxBytes: 1_000_000 } });
  for (let index = 0; index < 30; index++) await ask(`n${index}.example.com`);
  assert.equal(forwarder.stats.cacheEntries, 10);
  const small = await start(t, answering, { limits: { maxEntries: 100, maxBytes: 2000 } });
  for (let index = 0; index < 30; index++) await small.ask(`n${index}.example.com`);
  assert.ok(small.forwarder.stats.cacheEntries < 6);
});

test('a query that comes back to its sender is refused', async (t) => {
  const refused: number[] = [];
  const { ask, forwarder } = await start(t, async (query) => {
    const client: DnsClient = { ...CLIENT, port: query.port };
    const back = readQuery(encode(query.packet));
    assert.ok('bytes' in back);
    const response = await forwarder.resolve(back, client, () => assert.fail());
    refused.push(response.readUInt16BE(2) & 0xf);
    query.send(response);
  });
  assert.equal((await ask('www.example.com')).rcode, 5);
  assert.deepEqual(refused, [5]);
  assert.equal(forwarder.stats.loops, 1);
});

test('an own address among the servers is not asked', async (t) => {
  const { ask, upstream, log, setConf } = await start(t, answering, { conf: { servers: ['127.0.0.9', '127.0.0.1'] } });
  assert.deepEqual((await ask('www.example.com')).ips, ['192.0.2.1']);
  assert.equal(upstream.queries.length, 1);
  assert.equal(log.lines.filter((line) => line.includes('this DNS server itself')).length, 1);
  setConf({ servers: ['127.0.0.9'] });
  await assert.rejects(ask('other.example.com'), /no usable DNS server/);
});

test('use-vc asks over TCP alone, rotate begins at another server each time', async (t) => {
  const { ask, upstream } = await start(t, answering, { conf: { tcp: true } });
  assert.deepEqual((await ask('www.example.com')).ips, ['192.0.2.1']);
  assert.deepEqual(
    upstream.queries.map(({ protocol }) => protocol),
    ['tcp'],
  );
});
