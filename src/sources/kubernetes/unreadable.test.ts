/** Objects of an API server that cannot be decoded: the others do not wait for them. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { closeAll, follow, SERVICES, scripted } from './testing/scripted-source.ts';

afterEach(closeAll);

/** A length-delimited field of a protobuf message of less than 16 KiB. */
function field(number: number, content: Buffer | string): Buffer {
  const bytes = Buffer.from(content);
  const length = bytes.length < 128 ? [bytes.length] : [(bytes.length & 127) | 128, bytes.length >> 7];
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
}

/** A frame of a watch in protobuf. */
function frame(type: string, object: Buffer): Buffer {
  const envelope = Buffer.concat([Buffer.from('k8s\0'), field(2, object)]);
  const event = Buffer.concat([field(1, type), field(2, field(1, envelope))]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(event.length);
  return Buffer.concat([length, event]);
}

const metadata = (name: string, version: string, ...more: readonly Buffer[]) =>
  field(1, Buffer.concat([field(1, name), field(3, 'shop'), field(5, `uid-${name}`), field(6, version), ...more]));
const service = (name: string, version: string, address: string) =>
  Buffer.concat([metadata(name, version), field(2, field(3, address))]);
/** The field `spec` says that it is longer than the message. */
const broken = (name: string, version: string) =>
  Buffer.concat([metadata(name, version), Buffer.from([(2 << 3) | 2, 100, 1])]);
const END_OF_LIST = metadata(
  '',
  '100',
  field(12, Buffer.concat([field(1, 'k8s.io/initial-events-end'), field(2, 'true')])),
);

describe('an object that cannot be decoded', () => {
  test('keeps its last version in force, and the objects behind it are read', async () => {
    const server = await scripted();
    server.intercept = ({ path }, stream) => {
      if (path !== SERVICES) return false;
      stream.respond({ ':status': 200, 'content-type': 'application/vnd.kubernetes.protobuf;stream=watch' });
      const events = [
        frame('ADDED', broken('bad', '1')),
        frame('ADDED', service('web', '2', '10.0.0.1')),
        frame('BOOKMARK', END_OF_LIST),
        frame('MODIFIED', broken('web', '101')),
        frame('ADDED', service('late', '102', '10.0.0.2')),
      ];
      for (const event of events) stream.write(event);
      return true;
    };
    const { store, inForce, isSynced, refused } = follow(server);
    await waitUntil(() => isSynced() && inForce().includes('Service/shop/late'));
    assert.deepEqual(inForce(), ['Service/shop/late', 'Service/shop/web']);
    assert.equal(store.get('Service/shop/web')?.origin.resourceVersion, '2');
    assert.deepEqual(refused.map(({ key }) => key).sort(), ['Service/shop/bad', 'Service/shop/web']);
    assert.match(refused[0]?.message ?? '', /expected an object of this kind/);
    assert.equal(server.requests.filter(({ path }) => path === SERVICES).length, 1);
  });
});
