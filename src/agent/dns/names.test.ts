import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DnsAnswer, DnsClient, DnsQuery } from '../../dns/index.ts';
import { silentLog } from '../../dns/testing/clients.ts';
import { istio } from '../../protobuf/agent/index.ts';
import type { OwnChanges } from '../xds-proxy/index.ts';
import { createWarmUpResolver } from './index.ts';
import { MeshNames } from './mesh-names.ts';

const { NameTable } = istio.networking.nds.v1;

test('tables and pieces of the control plane are read, and anything else is rejected', async () => {
  const names = new MeshNames(silentLog, () => 0);
  const changes = { set: new Map<string, Uint8Array>(), removed: [], whole: false, version: '1' };
  const table = (ips: readonly string[]) =>
    NameTable.encode({ table: { 'web.shop.svc.cluster.local': { ips } } }).finish();
  const rejected = (more: Partial<OwnChanges>) =>
    assert.throws(() => names.receive({ ...changes, ...more }), { code: 'invalid_argument' });
  rejected({});
  assert.equal(names.awaited(), true);
  names.receive({ ...changes, set: new Map([['names', table(['10.96.0.1', '2001:db8::1'])]]) });
  await names.settled();
  const addressOf = (): string => {
    const id = names.table.find('web.shop.svc.cluster.local');
    return id === undefined ? '' : names.table.addresses(id, 4).join('.');
  };
  assert.deepEqual([names.awaited(), names.table.size, addressOf()], [false, 1, '10.96.0.1']);
  rejected({ removed: ['names'] });
  rejected({ whole: true });
  rejected({
    set: new Map([
      ['other', table(['10.96.0.9'])],
      ['names', Buffer.from('0aff', 'hex')],
    ]),
  });
  names.receive(changes);
  await names.settled();
  assert.deepEqual([names.table.size, addressOf()], [1, '10.96.0.1']);
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
