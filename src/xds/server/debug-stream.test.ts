import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { envoy } from '../../protobuf/index.ts';
import type { Caller } from '../../security/types.ts';
import type { SotwRequest } from '../protocol/index.ts';
import { NameSet } from '../protocol/name-set.ts';
import { EMPTY_HASH } from '../protocol/set-hash.ts';
import { QUIET_TRANSPORT } from '../testing/transport.ts';
import { type DebugAnswer, type DebugQuestion, DebugStream, isDebugType } from './debug-stream.ts';
import type { Transport } from './transport.ts';

const { DiscoveryResponse, DeltaDiscoveryResponse } = envoy.service.discovery.v3;
const CALLER: Caller = {
  identity: { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'web' },
  by: 'token',
  expiresAt: Number.MAX_SAFE_INTEGER,
};

/** A stream whose pages the test answers. */
function opened(mode: 'sotw' | 'delta' = 'sotw', isKnown = true) {
  const caller = isKnown ? CALLER : undefined;
  const [sent, failed, events, questions]: [Buffer[], unknown[], string[], DebugQuestion[]] = [[], [], [], []];
  const answers: ((answer: DebugAnswer) => void)[] = [];
  const transport: Transport = {
    ...QUIET_TRANSPORT,
    read: () => assert.fail('reads'),
    send(chunks, done) {
      sent.push(Buffer.concat(chunks).subarray(5));
      done('drained');
    },
    pause: () => void events.push('pause'),
    resume: () => void events.push('resume'),
  };
  const pages = {
    identifier: '{"ID":"one"}',
    answer: (question: DebugQuestion) => {
      questions.push(question);
      return new Promise<DebugAnswer>((resolve) => answers.push(resolve));
    },
  };
  const fail = (error: unknown) => void failed.push(error);
  const stream = new DebugStream({ transport, mode, address: '192.0.2.1', caller, pages, fail });
  let released = 0;
  const answer = async (...names: readonly string[]) => {
    const resources = names.map((name) => ({ name, typeUrl: 'istio.io/debug', value: Buffer.from(`{"${name}":1}`) }));
    answers.shift()?.({ resources, release: () => void released++ });
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { stream, sent, failed, events, questions, answer, released: () => released };
}

const ask = (name: string, more: Partial<SotwRequest> = {}): SotwRequest => ({
  typeUrl: 'istio.io/debug',
  versionInfo: '',
  responseNonce: '',
  names: new NameSet(new Set([name]), EMPTY_HASH),
  nack: undefined,
  node: undefined,
  ...more,
});

const codeOf = (error: unknown) => (error instanceof CtlError ? error.code : String(error));

describe('a stream for debug pages', () => {
  it('is one whose type is istio.io/debug or below', () => {
    assert.deepEqual(['istio.io/debug', 'istio.io/debug/syncz', 'istio.io/debugger', ''].map(isDebugType), [
      true,
      true,
      false,
      false,
    ]);
  });

  it('is answered with the page, the name of the replica and a nonce', async () => {
    const { stream, sent, questions, answer, released } = opened();
    stream.receive(ask('syncz', { responseNonce: '2026-01-01 00:00:00 of the tool' }));
    assert.deepEqual([questions[0]?.names, questions[0]?.identity.namespace], [['syncz'], 'shop']);
    await answer('syncz');
    const response = DiscoveryResponse.decode(sent[0] ?? Buffer.alloc(0));
    assert.deepEqual(
      [response.typeUrl, response.nonce, response.controlPlane?.identifier],
      ['istio.io/debug', '1', '{"ID":"one"}'],
    );
    assert.equal(Buffer.from(response.resources[0]?.value ?? []).toString(), '{"syncz":1}');
    assert.equal(released(), 1);
    stream.receive(ask('syncz', { responseNonce: '1' }));
    assert.equal(questions.length, 1, 'an acknowledgement is not answered');
  });

  it('speaks Delta as well', async () => {
    const { stream, sent, answer } = opened('delta');
    const { names, ...rest } = ask('list');
    stream.receive({ ...rest, subscribe: names } as never);
    await answer('list');
    const response = DeltaDiscoveryResponse.decode(sent[0] ?? Buffer.alloc(0));
    assert.deepEqual([response.resources[0]?.name, response.controlPlane?.identifier], ['list', '{"ID":"one"}']);
  });

  it('is answered one request after the other, and reading is paused meanwhile', async () => {
    const { stream, sent, events, questions, answer } = opened();
    stream.receive(ask('one'));
    stream.receive(ask('two'));
    assert.deepEqual([questions.length, events], [1, ['pause']]);
    await answer('one');
    await answer('two');
    assert.deepEqual([sent.length, events], [2, ['pause', 'resume']]);
  });

  it('ends when too many requests wait, or one is for configuration', async () => {
    const many = opened();
    for (let count = 0; count < 18; count++) many.stream.receive(ask('syncz'));
    assert.deepEqual(many.failed.map(codeOf), ['resource_exhausted']);
    const other = opened();
    other.stream.receive(ask('', { typeUrl: 'type.googleapis.com/envoy.config.cluster.v3.Cluster' }));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(other.failed.map(codeOf), ['invalid_argument']);
  });

  it('without a credential is refused before a page is built', async () => {
    const { stream, failed, questions } = opened('sotw', false);
    stream.receive(ask('syncz'));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([failed.map(codeOf), questions.length], [['unauthenticated'], 0]);
  });

  it('that ends meanwhile gets nothing, and its page is released', async () => {
    const { stream, sent, questions, answer, released } = opened();
    stream.receive(ask('syncz'));
    stream.close();
    assert.equal(questions[0]?.closed.aborted, true);
    await answer('syncz');
    assert.deepEqual([sent.length, released()], [0, 1]);
  });
});
