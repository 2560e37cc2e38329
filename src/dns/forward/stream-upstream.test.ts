import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { encode } from 'dns-packet';
import { a, startUpstream } from '../testing/upstream.ts';
import { createStreamUpstream } from './stream-upstream.ts';

const QUESTION = encode({ type: 'query', questions: [{ name: 'www.example.com', type: 'A' }] }).subarray(12);

for (const [maxAgeMs, ports] of [
  [60_000, 1],
  [0, 3],
] as const) {
  test(`three queries use ${ports} connections with a maximal age of ${maxAgeMs} ms`, async (t) => {
    const server = await startUpstream(t, (query) => query.reply([a(query.name, '192.0.2.1')]));
    const dial = () => connect(server.port, '127.0.0.1');
    const upstream = createStreamUpstream({ name: 'test', dial, ready: 'connect', idleMs: 20_000, maxAgeMs });
    t.after(() => upstream.close());
    for (let index = 0; index < 3; index++)
      await upstream.exchange({ question: QUESTION, flags: 0x100, edns: undefined }, 5000);
    assert.equal(new Set(server.queries.map(({ port }) => port)).size, ports);
  });
}
