/** The line about what it costs that sidecars have all services, with a real engine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { inline, Mesh, service, sidecar } from '../../push/testing/mesh.ts';
import { CostLog } from './cost-log.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const services = (count: number) =>
  Array.from({ length: count }, (_, at) => service('shop', `s-${at}`, { clusterIP: `10.9.${at >> 8}.${at & 255}` }));

test('one line says what it costs, and another one after a large change, at most once an hour', async () => {
  const mesh = new Mesh(inline, services(120));
  const clock = fakeClock();
  const lines: string[] = [];
  const log = new CostLog({
    sessions: () => [...mesh.engine.sessions()],
    clock,
    log: { info: (line) => void lines.push(line) },
  });
  const connect = async (configuration?: 'learned') => {
    const address = `10.1.0.${[...mesh.engine.sessions()].length + 1}`;
    const own = configuration && { options: { configuration } };
    const { session } = mesh.connect({ ...sidecar(address, 'shop'), discoversVirtualHosts: true, ...own });
    await session.ready;
    for (const type of ['cds', 'eds', 'vhds'] as const) await session.need(type);
  };
  await connect('learned');
  await clock.advance(HOUR_MS);
  assert.deepEqual(lines, []);

  await connect();
  await clock.advance(MINUTE_MS);
  assert.equal(lines.length, 1);
  assert.match(
    lines[0] ?? '',
    /^1 sidecars have all services .*: (\d+) kB of configuration, \1 kB each for 1\d\d hosts. With CTL_.* about \d+ kB$/,
  );
  await clock.advance(3 * HOUR_MS);
  assert.equal(lines.length, 1);

  await connect();
  await clock.advance(MINUTE_MS);
  await connect();
  await connect();
  await clock.advance(59 * MINUTE_MS);
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? '', /^2 sidecars/);
  await clock.advance(MINUTE_MS);
  assert.match(lines[2] ?? '', /^4 sidecars/);
  await log.close();
});

test('a small mesh and one without sidecars get no line', async () => {
  const mesh = new Mesh(inline, services(20));
  const clock = fakeClock();
  const lines: string[] = [];
  const sessions = () => [...mesh.engine.sessions()];
  const log = new CostLog({ sessions, clock, log: { info: (line) => void lines.push(line) } });
  await clock.advance(HOUR_MS);
  const { session } = mesh.connect({ ...sidecar('10.1.0.1', 'shop'), discoversVirtualHosts: true });
  await session.ready;
  for (const type of ['cds', 'eds', 'vhds'] as const) await session.need(type);
  await clock.advance(HOUR_MS);
  assert.deepEqual(lines, []);
  await log.close();
});
