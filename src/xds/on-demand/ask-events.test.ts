/** What observers are told of proxies on demand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inline, Mesh, service, sidecar } from '../../push/testing/mesh.ts';
import { EMPTY_REQUEST, newShared } from '../testing/demand.ts';
import { AnswerTimes } from './answer-times.ts';
import type { AskEvent } from './ask-events.ts';
import { Demand } from './demand.ts';

const HOSTS = { type: 'vhds', message: { body: [new Uint8Array(1)] } } as const;
const REMOVAL = { type: 'vhds', message: { body: [] } } as const;

test('asks, unknown names, learned hosts and misses are told once for each proxy', async () => {
  const services = ['a', 'b', 'c'].map((name) => service('shop', name));
  const mesh = new Mesh(inline, services);
  const node = { ...sidecar('10.1.0.1', 'shop'), discoversVirtualHosts: true };
  const { session } = mesh.connect({ ...node, options: { configuration: 'learned' } as const });
  await session.ready;
  const shared = newShared();
  const connect = (had: readonly string[] = []) => {
    const told: Record<string, number> = {};
    const onEvent = ({ names = 0, unknown = 0, learned = 0, missed = 0 }: AskEvent): void => {
      for (const [key, count] of Object.entries({ names, unknown, learned, missed }))
        told[key] = (told[key] ?? 0) + count;
    };
    const demand = new Demand(shared, onEvent);
    const ask = (...hosts: readonly string[]): void => {
      const subscribe = shared.names.of(hosts.map((host) => `80/${host}`));
      const asking = { mode: 'learned', workload: 'pod.shop', at: 1, since: 1 } as const;
      const initialVersions = new Map((hosts.length === 0 ? had : []).map((name) => [name, 'v']));
      demand.receive('vhds', { ...EMPTY_REQUEST, subscribe, initialVersions }, asking);
      demand.parts(session.content(), 'learned');
      demand.parts(session.content(), 'learned');
    };
    // As when it requests clusters, before it says which virtual hosts it had.
    demand.parts(session.content(), 'learned');
    ask();
    return { told, ask, demand };
  };
  const first = connect();
  first.ask('a', 'nowhere.example');
  assert.deepEqual(first.told, { names: 2, unknown: 1, learned: 0, missed: 1 });
  const second = connect();
  assert.deepEqual(second.told, { names: 0, unknown: 0, learned: 1, missed: 0 });
  // Another name of the learned host, and a host that nobody has asked for.
  second.ask('a.shop', 'b');
  assert.deepEqual(second.told, { names: 2, unknown: 0, learned: 1, missed: 1 });
  assert.equal(second.demand.hosts, 2);
  const again = connect(['80/a.shop.svc.cluster.local:80']);
  assert.deepEqual(again.told, { names: 0, unknown: 0, learned: 1, missed: 0 });
  session.close();
});

test('an ask has waited until the response with its answer was written', () => {
  const times = new AnswerTimes();
  times.asked('vhds', 2, 1000);
  times.sent([{ type: 'eds', message: { body: [new Uint8Array(1)] } }, REMOVAL]);
  assert.deepEqual(times.written(1500), []);
  times.sent([HOSTS]);
  times.asked('vhds', 1, 1600);
  assert.deepEqual(times.written(2000), [1, 1]);
  times.sent([HOSTS]);
  assert.deepEqual(times.written(1850), [0.25]);
  assert.deepEqual(times.written(9000), []);
});

test('a cluster that does not exist is answered by its removal', () => {
  const times = new AnswerTimes();
  times.asked('cds', 1, 0);
  times.sent([{ type: 'cds', message: { body: [] } }]);
  assert.deepEqual(times.written(500), [0.5]);
});
