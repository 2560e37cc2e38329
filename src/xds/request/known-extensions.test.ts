import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Memos } from '../../core/memo.ts';
import * as fc from '../../core/testing/properties.ts';
import { ASKED_EXTENSIONS } from '../../generate/index.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import { encodeDeltaRequest, encodeNode, encodeSotwRequest, nested, SIDECAR_ID } from '../testing/content.ts';
import { SHARED } from '../testing/protocols.ts';
import { RequestFormats } from './decode.ts';
import { MAX_LEARNED_BYTES, MAX_LISTS, MIN_LEARNED_BYTES } from './known-extensions.ts';
import { parseNode } from './node.ts';
import { MAX_EXTENSIONS } from './node-extensions.ts';

const typeUrl = 'type.googleapis.com/x';
const [ASKED = ''] = ASKED_EXTENSIONS;

const extension = (name: string): Buffer => nested(9, encodeFields([[1, name]]));

/** A list that is long enough to be learned. */
function listOf(prefix: string, count = 500): Buffer {
  const others = Array.from({ length: count }, (_, index) => extension(`envoy.filters.http.${prefix}_${index}`));
  return Buffer.concat([...others, extension(ASKED)]);
}

/** Reads the first request of a stream, as one server does; `kept` is what the stream keeps of the node. */
function server(enabled = true) {
  const { delta, sotw, extensions } = new RequestFormats(SHARED.names, new Memos({ enabled }));
  return (node: Buffer, variant: 'delta' | 'sotw' = 'delta') => {
    const request =
      variant === 'delta'
        ? delta.decode(encodeDeltaRequest({ typeUrl, node }))
        : sotw.decode(encodeSotwRequest({ typeUrl, node }));
    return { kept: request.node?.length ?? 0, node: parseNode(request.node, request.extensions, extensions) };
  };
}

describe('known extensions', () => {
  it('keeps no list that an earlier stream has sent, and reads the same node', () => {
    const list = listOf('a');
    const connect = server();
    const [one, other] = [encodeNode(SIDECAR_ID, {}, list), encodeNode(SIDECAR_ID, { NETWORK: 'n' }, list)];
    assert.equal(connect(one).kept, one.length);
    for (const variant of ['delta', 'sotw'] as const) {
      const second = connect(other, variant);
      assert.equal(second.kept, other.length - list.length);
      assert.deepEqual(second.node, parseNode(other));
      assert.deepEqual(second.node.extensions, [ASKED]);
    }
  });

  it('leaves a list out of a node that was received before the list was known', () => {
    const list = listOf('a');
    const { delta, extensions } = new RequestFormats(SHARED.names, new Memos());
    const [one, other] = [encodeNode(SIDECAR_ID, {}, list), encodeNode(SIDECAR_ID, { NETWORK: 'n' }, list)];
    const waiting = delta.decode(encodeDeltaRequest({ typeUrl, node: other })).node ?? Buffer.alloc(0);
    assert.equal(extensions.leaveOut(waiting, 0, waiting.length), undefined);
    parseNode(delta.decode(encodeDeltaRequest({ typeUrl, node: one })).node, undefined, extensions);
    const shortened = extensions.leaveOut(waiting, 0, waiting.length);
    assert.equal(shortened?.node.length, other.length - list.length);
    assert.deepEqual(parseNode(shortened?.node, shortened?.extensions), parseNode(other));
  });

  it('reads the extensions that a node has besides a known list', () => {
    const [first = '', second = ''] = ASKED_EXTENSIONS;
    const list = listOf('a');
    const more = encodeNode(SIDECAR_ID, {}, Buffer.concat([list, extension(second)]));
    const connect = server();
    connect(encodeNode(SIDECAR_ID, {}, list));
    assert.deepEqual(connect(more).node.extensions, [first, second]);
    const tooMany = Buffer.concat([list, ...Array.from({ length: MAX_EXTENSIONS }, () => extension('b'))]);
    assert.throws(() => connect(encodeNode(SIDECAR_ID, {}, tooMany)), /more than/);
  });

  it('learns no list that has another field inside, is short, or is very long', () => {
    const half = listOf('a', 300);
    const split = Buffer.concat([half, nested(4, encodeFields([[1, 'region']])), listOf('b', 300)]);
    const short = Buffer.concat([extension('a'), extension('b')]);
    const long = Buffer.concat(Array.from({ length: 100 }, () => extension('x'.repeat(4000))));
    assert.ok(short.length < MIN_LEARNED_BYTES && half.length > MIN_LEARNED_BYTES && long.length > MAX_LEARNED_BYTES);
    for (const list of [split, short, long]) {
      const connect = server();
      const node = encodeNode(SIDECAR_ID, {}, list);
      connect(node);
      const again = connect(node);
      assert.equal(again.kept, node.length);
      assert.deepEqual(again.node, parseNode(node));
    }
  });

  it('keeps the lists that were used last, and none when memos are disabled', () => {
    const connect = server();
    const used = encodeNode(SIDECAR_ID, {}, listOf('used'));
    const once = encodeNode(SIDECAR_ID, {}, listOf('once'));
    connect(once);
    for (let index = 0; index < MAX_LISTS; index++) {
      connect(used);
      connect(encodeNode(SIDECAR_ID, {}, listOf(`other${index}`)));
    }
    assert.ok(connect(used).kept < used.length);
    assert.equal(connect(once).kept, once.length);
    const without = server(false);
    without(used);
    assert.equal(without(used).kept, used.length);
  });

  it('reads any nodes as a server does that knows no list', () => {
    const connect = server();
    const fields = [listOf('a', 120), listOf('b', 120), extension('one'), nested(4, encodeFields([[1, 'region']]))];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...fields), { maxLength: 5 }), (parts) => {
        const node = encodeNode(SIDECAR_ID, {}, Buffer.concat(parts));
        assert.deepEqual(connect(node).node, parseNode(node));
      }),
      { numRuns: 200 },
    );
  });
});
