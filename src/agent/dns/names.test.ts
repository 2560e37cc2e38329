import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createNameTable, type DnsAnswer, type DnsClient, type DnsQuery } from '../../dns/index.ts';
import { istio } from '../../protobuf/agent/index.ts';
import { createWarmUpResolver, readNames } from './index.ts';

const { NameTable } = istio.networking.nds.v1;

test('the table of the control plane is read, and anything else is rejected', () => {
  const bytes = NameTable.encode({ table: { 'web.shop.svc.cluster.local': { ips: ['10.96.0.1', '2001:db8::1'] } } });
  const table = createNameTable(readNames([bytes.finish()]));
  assert.equal(table.size, 1);
  const id = table.find('web.shop.svc.cluster.local');
  assert.ok(id !== undefined);
  assert.deepEqual([...table.addresses(id, 4)], [10, 96, 0, 1]);
  for (const resources of [[], [bytes.finish(), bytes.finish()], [Buffer.from('0aff', 'hex')]]) {
    assert.throws(() => readNames(resources), { code: 'invalid_argument' });
  }
});

test('while the names are awaited, names outside are answered, and none is said not to exist', async () => {
  const client: DnsClient = { protocol: 'udp', address: '127.0.0.1', port: 1024, identity: undefined };
  const name = { name: 'a', wireName: '\x01a' };
  const query: DnsQuery = { bytes: Buffer.alloc(12), questionEnd: 12, ...name, type: 1, edns: undefined };
  const answers = async (rcode: number, known: boolean): Promise<DnsAnswer> => {
    const response = Buffer.from([0, 0, 0x80, rcode]);
    return createWarmUpResolver(() => known).resolve(query, client, () => response);
  };
  assert.equal((await answers(0, false)).length, 4);
  await assert.rejects(answers(3, false), { code: 'unavailable', message: 'the names of the mesh are not known yet' });
  assert.equal((await answers(3, true)).length, 4);
});
