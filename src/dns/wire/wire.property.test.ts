/** Wire format: whatever arrives, nothing throws, and responses say what `dns-packet` reads in them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode, encode, type Packet } from 'dns-packet';
import * as fc from '../../core/testing/properties.ts';
import { readResponse, toRequest } from '../forward/request.ts';
import { createHandler } from '../server/handler.ts';
import { addressBytes, createNameTable } from '../table/name-table.ts';
import { createTableResolver } from '../table/table-resolver.ts';
import { opt, silentLog } from '../testing/clients.ts';
import type { DnsClient } from '../types.ts';
import { parseLayout } from './layout.ts';
import { readAnyQuery, readPlainQuery, readQuery } from './query.ts';
import { finished, truncated } from './reply.ts';

const CLIENT: DnsClient = { protocol: 'udp', address: '127.0.0.1', port: 4000, identity: undefined };

const label = fc.stringMatching(/^[a-z0-9_-]{1,20}$/);
const host = fc.array(label, { minLength: 1, maxLength: 6 }).map((labels) => labels.join('.'));
const ipv4 = fc.ipV4();
const ipv6 = fc.ipV6();

const queryOf = (name: string, type: 'A' | 'AAAA' | 'ANY', more: Packet = {}): Buffer =>
  encode({ type: 'query', id: 7, flags: 0x100, questions: [{ name, type: type as 'A' }], ...more });

/** A message with some bytes changed, cut off or added. */
const mutated = fc
  .tuple(
    host,
    fc.array(fc.tuple(fc.nat({ max: 200 }), fc.nat({ max: 255 })), { maxLength: 8 }),
    fc.nat({ max: 120 }),
    fc.uint8Array({ maxLength: 20 }),
  )
  .map(([name, changes, length, tail]) => {
    const bytes = Buffer.from(queryOf(name, 'A', { additionals: [opt(1232)] }));
    for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
    return Buffer.concat([length < bytes.length && length > 60 ? bytes.subarray(0, length) : bytes, tail]);
  });

const handler = () =>
  createHandler({
    resolvers: [createTableResolver({ scope: () => ({ table: createNameTable([['a.b', { ips: ['10.0.0.1'] }]]) }) })],
    allows: () => true,
    maxWaiting: 10,
    maxUdpBytes: 1232,
    log: silentLog,
  });

test('a message of any bytes is answered with a readable message of the same id, or not at all', () => {
  const { handle, stats } = handler();
  const anything = fc.oneof(
    fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes)),
    mutated,
  );
  fc.assert(
    fc.property(anything, (bytes) => {
      const response = handle(bytes, CLIENT);
      if (response === undefined) return;
      assert.ok(Buffer.isBuffer(response));
      assert.equal(response.readUInt16BE(0), bytes.readUInt16BE(0));
      assert.ok(parseLayout(response) !== undefined);
      assert.ok(decode(response).flag_qr);
    }),
    { numRuns: 3000 },
  );
  assert.equal(stats.responses.get('SERVFAIL'), undefined, 'nothing fails inside');
});

test('the reader of usual queries reads the same as dns-packet', () => {
  const read = (query: ReturnType<typeof readQuery> | undefined) =>
    query !== undefined && 'bytes' in query
      ? [query.name, query.wireName, query.type, query.questionEnd, query.edns]
      : undefined;
  const usual = fc
    .tuple(host, fc.constantFrom('A', 'AAAA', 'ANY'), fc.option(fc.nat({ max: 65_535 })), fc.boolean(), fc.nat())
    .map(([name, type, payload, dnssecOk, upper]) => {
      const cased = Array.from(name, (letter, at) => ((upper >> (at % 31)) & 1 ? letter.toUpperCase() : letter)).join(
        '',
      );
      const record = { ...opt(payload ?? 0), flags: dnssecOk ? 0x8000 : 0, flag_do: dnssecOk };
      return queryOf(cased, type as 'A', payload === null ? {} : { additionals: [record] });
    });
  let compared = 0;
  fc.assert(
    fc.property(fc.oneof(usual, mutated), (bytes) => {
      const plain = readPlainQuery(bytes);
      if (plain === undefined) return;
      compared++;
      assert.deepEqual(read(plain), read(readAnyQuery(bytes)));
      const packet = decode(bytes);
      assert.equal(plain.edns === undefined, packet.additionals?.length === 0);
      if (plain.name !== undefined && plain.name !== '')
        assert.equal(plain.name, packet.questions?.[0]?.name.toLowerCase());
    }),
    { numRuns: 3000 },
  );
  fc.assert(fc.property(usual, (bytes) => readPlainQuery(bytes) !== undefined));
  assert.ok(compared > 1000, `${compared} messages were compared`);
});

test('a response of any bytes is read or ignored', () => {
  const query = readQuery(queryOf('www.example.com', 'A'));
  assert.ok('bytes' in query);
  const request = toRequest(query);
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes)),
        mutated,
      ),
      (bytes) => {
        if (bytes.length > 4) bytes.writeUInt16BE(0x8180, 2);
        const response = readResponse(bytes, request, bytes.length > 1 ? bytes.readUInt16BE(0) : 0);
        if (response !== undefined) truncated(response.message, 100);
      },
    ),
    { numRuns: 3000 },
  );
});

test('messages that lie about their contents are refused before they are decoded', () => {
  const header = Buffer.alloc(12);
  header.fill(0xff, 4);
  assert.equal(parseLayout(header), undefined, 'counts');
  assert.deepEqual(readQuery(header), { rcode: 1, questionEnd: undefined, edns: false });
  const loop = Buffer.from(queryOf('a.b', 'A'));
  loop.writeUInt16BE(0xc00c, 12);
  assert.deepEqual(readQuery(loop), { rcode: 1, questionEnd: undefined, edns: false }, 'a name that points to itself');
  const cut = queryOf('a.b', 'A', { additionals: [opt(1232)] });
  assert.deepEqual(readQuery(cut.subarray(0, -1)), { rcode: 1, questionEnd: undefined, edns: false }, 'a cut record');
});

test('responses from the table are those that dns-packet reads', () => {
  fc.assert(
    fc.property(
      host,
      fc.array(ipv4, { maxLength: 60 }),
      fc.array(ipv6, { maxLength: 30 }),
      fc.constantFrom('A', 'AAAA', 'ANY'),
      fc.option(fc.integer({ min: 0, max: 4096 }), { nil: undefined }),
      (name, v4, v6, type, payload) => {
        const table = createNameTable([[name, { ips: [...v6, ...v4] }]]);
        const resolver = createTableResolver({ scope: () => ({ table }), random: () => 0 });
        const bytes = queryOf(name, type as 'A', payload === undefined ? {} : { additionals: [opt(payload)] });
        const query = readQuery(bytes);
        assert.ok('bytes' in query);
        const complete = resolver.resolve(query, CLIENT, () => assert.fail('a name of the table is not forwarded'));
        assert.ok(Buffer.isBuffer(complete));
        const wanted = [
          ...(type === 'AAAA' ? [] : v4.map((ip) => ['A', addressBytes(ip).join()])),
          ...(type === 'A' ? [] : v6.map((ip) => ['AAAA', addressBytes(ip).join()])),
        ];
        const read = decode(complete);
        assert.ok(read.answers?.every((answer) => answer.name === name && 'ttl' in answer && answer.ttl === 30));
        assert.deepEqual(
          read.answers?.map((answer) => [
            answer.type,
            'data' in answer ? addressBytes(String(answer.data)).join() : '',
          ]),
          wanted,
        );
        // As it is sent: not longer than allowed, TC when addresses are missing, OPT as asked.
        const limit = Math.max(512, payload ?? 0);
        const sent = finished(query, complete, limit, 1232);
        const short = decode(sent);
        assert.ok(sent.length <= limit);
        assert.equal(short.flag_tc, (short.answers?.length ?? 0) < wanted.length);
        assert.deepEqual(short.answers, read.answers?.slice(0, short.answers?.length));
        assert.equal(short.additionals?.length, payload === undefined ? 0 : 1);
      },
    ),
    { numRuns: 300 },
  );
});
