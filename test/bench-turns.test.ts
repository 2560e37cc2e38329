/** Benches of two programs by turns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bench, BenchContext } from '../bench/mesh.ts';
import type { Size } from '../bench/options.ts';
import { programOf } from '../bench/server.ts';
import { runByTurns } from '../bench/turns.ts';

const SIZE: Size = {
  services: 12,
  endpoints: 2,
  proxies: 6,
  namespaces: 2,
  mode: 'delta',
  security: 'plain',
  content: 'mtls',
};

/** A bench whose CPU time is `cpu` of the program, and a little more at each run. */
function benchOf(cpu: Readonly<Record<string, number>>, ran: string[]): Bench {
  return {
    name: 'mock',
    about: '',
    async run({ program }) {
      ran.push(program);
      const serverCpu = (cpu[program] ?? 0) + ran.length / 100;
      return {
        rows: [{ bench: 'mock', what: 'route', size: SIZE, serverCpu }],
        failures: program === 'old' ? ['x'] : [],
      };
    },
  };
}

test('a bench by turns: each program is the first in turn, and figures are medians with their ratio', async () => {
  const ran: string[] = [];
  const context = { program: 'new', progress: () => {} } as unknown as BenchContext;
  const outcome = await runByTurns(benchOf({ old: 2, new: 1 }, ran), context, { program: 'old', count: 3 });
  assert.deepEqual(ran, ['old', 'new', 'new', 'old', 'old', 'new']);
  const [row] = outcome.tables?.[0]?.rows ?? [];
  const [what, figure, base, own, ratio] = row ?? [];
  assert.deepEqual([what, figure, base, own], ['route, 12 x 6', 'CPU s', 2.04, 1.03]);
  assert.ok(Math.abs(Number(ratio) - 1.03 / 2.04) < 1e-9);
  assert.equal(outcome.rows.length, 3, 'the rows of this checkout');
  assert.deepEqual(outcome.failures, ['base: x', 'base: x', 'base: x']);
});

test('another checkout has to be built', () => {
  assert.throws(() => programOf('/nowhere'), /^Error: --against: there is no \/nowhere\/dist\/ctl-discovery\.js; run/);
});
