/** The policy thread: what it does in its turns, one by one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode, envoy } from '../protobuf/index.ts';
import { testHost } from './adapters/testing/host.ts';
import { compilePolicy } from './config/compile.ts';
import { type FromPolicyThread, packed } from './protocol.ts';
import { ROOT } from './testing/compiled.ts';
import { PolicyThread } from './thread.ts';
import type { PolicyDocument } from './types.ts';

const { CheckRequest } = envoy.service.auth.v3;
const { StreamAccessLogsMessage } = envoy.service.accesslog.v3;

function start(host = testHost()) {
  const [posted, turns]: [FromPolicyThread[], (() => void)[]] = [[], []];
  const compiled: number[] = [];
  const options = { language: undefined, configNamespace: ROOT };
  const thread = new PolicyThread({
    data: { options, skipsSanVerification: false },
    host,
    // Stand-in for the compiler: each document takes 3 ms, and has no effect.
    *compile(given) {
      const all = [...given];
      compiled.push(all.length);
      for (const _ of all) {
        host.advance(3);
        yield undefined;
      }
      return compilePolicy([], options);
    },
    post: (message) => posted.push(message),
    nextTurn: (run) => turns.push(run),
  });
  const turn = (): void => {
    for (const run of turns.splice(0)) run();
  };
  const count = (kind: FromPolicyThread['kind']): number => posted.filter((each) => each.kind === kind).length;
  const caller = { key: 'a', namespace: 'shop', address: '10.0.0.1' };
  thread.take({ kind: 'caller', id: 1, record: caller });
  return { thread, compiled, turns, turn, count, posted };
}

/** As many documents, in place of those before. */
function configure(thread: PolicyThread, count: number, more = false): void {
  const keys = Array.from({ length: 200 }, (_, at) => `rule/a/r${at}`);
  const set = keys.slice(0, count).map((key) => [key, {} as PolicyDocument] as const);
  thread.take({ kind: 'configure', set, deleted: keys.slice(count), more });
}

test('documents are compiled in slices, with signs of life in between, and the newest ones win', () => {
  const { thread, compiled, turns, turn, count } = start();
  configure(thread, 200);
  assert.equal(compiled.length, 0);
  for (let turns = 0; turns < 90; turns++) turn();
  assert.deepEqual([count('configured'), compiled], [0, [200]]);
  assert.ok(count('stats') > 0);
  configure(thread, 100);
  configure(thread, 10);
  while (turns.length > 0) turn();
  assert.deepEqual([count('configured'), compiled], [2, [200, 10]]);
});

test('documents that belong together are compiled together', () => {
  const { thread, compiled, turns, turn } = start();
  configure(thread, 20, true);
  while (turns.length > 0) turn();
  assert.deepEqual(compiled, []);
  configure(thread, 30);
  while (turns.length > 0) turn();
  assert.deepEqual(compiled, [30]);
});

test('calls before the first configuration wait for it', () => {
  const { thread, turns, turn, count } = start();
  const request = encode(CheckRequest, { attributes: { request: { http: { path: '/' } } } });
  configure(thread, 10);
  thread.take({ kind: 'checks', ids: [1], callers: [1], requests: packed([request]) });
  turn();
  assert.deepEqual([count('configured'), count('answers')], [0, 0]);
  while (turns.length > 0) turn();
  assert.deepEqual([count('configured'), count('answers')], [1, 1]);
});

test('very many records do not delay the check of another proxy, and those beyond 1,000 are counted', async () => {
  let now = 0;
  const { thread, turns, turn, count, posted } = start(testHost({ monotonic: () => (now += 0.01) }));
  configure(thread, 0);
  while (turns.length > 0) turn();
  const entries = Array.from({ length: 50_000 }, () => ({}));
  const message = encode(StreamAccessLogsMessage, { httpLogs: { logEntry: entries } });
  const request = encode(CheckRequest, { attributes: { request: { http: { path: '/' } } } });
  thread.take({ kind: 'caller', id: 2, record: { key: 'b', namespace: 'shop', address: '10.0.0.2' } });
  thread.take({ kind: 'record', id: 1, caller: 1, message });
  thread.take({ kind: 'checks', ids: [1], callers: [2], requests: packed([request]) });
  for (let turns = 0; turns < 2; turns++) turn();
  assert.equal(count('answers'), 1);
  assert.equal(turns.length, 1, 'the rest of the record waits for its turn');
  while (turns.length > 0) turn();
  await new Promise(setImmediate);
  assert.deepEqual([count('answers'), count('recorded')], [1, 1]);
  thread.take({ kind: 'close' });
  const dropped = posted.map((each) => (each.kind === 'stats' ? each.droppedEntries : 0));
  assert.equal(
    dropped.reduce((a, b) => a + b, 0),
    49_000,
  );
});
