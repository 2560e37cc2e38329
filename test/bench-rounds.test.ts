/** Which rounds of a bench count, how often they are repeated, and what the table says about them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CpuTimes, isDisturbed, type Lost, lostBetween, readCpuTimes } from '../bench/disturbance.ts';
import { parseCommandLine, type Size } from '../bench/options.ts';
import { asideAims } from '../bench/report/aims.ts';
import { asText, tablesOf } from '../bench/report/table.ts';
import { latencyOf, type Quantiles, type Row } from '../bench/results.ts';
import { addRound, createSeries, type Measured, type RoundsContext, runRounds, tallyOf } from '../bench/rounds.ts';
import { World } from '../bench/world/world.ts';

/** /proc/stat of a machine with one core. */
function procStat(fields: string): string {
  return `cpu  ${fields}\ncpu0 ${fields}\nintr 1 2 3\n`;
}

function times(fields: string): CpuTimes {
  const read = readCpuTimes(() => procStat(fields));
  assert.ok(read);
  return read;
}

const LIMITS = { stolen: 0.03, others: 0.1 } as const;

test('/proc/stat is read as busy, idle and stolen time; guests are part of user', () => {
  const read = times('100 20 30 400 50 6 7 80 90 10');
  assert.deepEqual(read, { busy: 1.63, idle: 4.5, stolen: 0.8 });
});

test('without /proc/stat, or with that of an old kernel, losses are unknown and nothing counts as disturbed', () => {
  const missing = (): string => {
    throw new Error('ENOENT');
  };
  assert.equal(readCpuTimes(missing), undefined);
  assert.equal(
    readCpuTimes(() => 'cpu  1 2 3 4\n'),
    undefined,
  );
  const lost = lostBetween(undefined, times('1 0 0 0 0 0 0 9'), 0);
  assert.equal(lost, undefined);
  assert.equal(isDisturbed(lost, LIMITS), false);
});

test('stolen is a share of the CPU time wanted, others a share of all cores', () => {
  // 10 s of two cores: 6 s busy, of which 4 the bench's, 2 s stolen, 12 s idle.
  const lost = lostBetween(times('1000 0 0 1000 0 0 0 500'), times('1500 0 100 2100 100 0 0 700'), 4);
  assert.deepEqual(lost, { stolen: 0.25, others: 0.1, stolenSeconds: 2, othersSeconds: 2 });
});

test('the time of others is never negative, even if the bench used more than the kernel sampled', () => {
  const lost = lostBetween(times('0 0 0 0 0 0 0 0'), times('100 0 0 100 0 0 0 0'), 1.2);
  assert.deepEqual([lost?.others, lost?.stolen], [0, 0]);
});

test('two readings at the same moment show no loss', () => {
  const same = times('5 0 0 5 0 0 0 5');
  assert.deepEqual(lostBetween(same, same, 0), { stolen: 0, others: 0, stolenSeconds: 0, othersSeconds: 0 });
});

/** The loss in a round of one second on two cores, in ticks. */
function lostOf({ stolen = 0, others = 0, ours = 100 }): Lost {
  const idle = 200 - stolen - others - ours;
  const lost = lostBetween(times('0 0 0 0 0 0 0 0'), times(`${ours + others} 0 0 ${idle} 0 0 0 ${stolen}`), ours / 100);
  assert.ok(lost);
  return lost;
}

test('a round is disturbed above either limit, and by two ticks stolen at least', () => {
  const rows: [string, Lost, boolean][] = [
    ['nothing lost', lostOf({}), false],
    ['3 of 103 ticks stolen: 2.9 %', lostOf({ stolen: 3 }), false],
    ['4 of 104 stolen: 3.8 %', lostOf({ stolen: 4 }), true],
    ['a cheap round, 1 of 11 stolen: 9 %, but one tick', lostOf({ stolen: 1, ours: 10 }), false],
    ['a cheap round, 2 of 12 stolen', lostOf({ stolen: 2, ours: 10 }), true],
    ['others use 10 % of the cores', lostOf({ others: 20 }), false],
    ['others use 10.5 %', lostOf({ others: 21 }), true],
  ];
  for (const [what, lost, disturbed] of rows) assert.equal(isDisturbed(lost, LIMITS), disturbed, what);
  assert.equal(isDisturbed(lostOf({ others: 4 }), { stolen: 0, others: 0 }), false, 'too little to be known');
});

const QUIET = lostOf({});
const DISTURBED = lostOf({ stolen: 50 });
const WORSE = lostOf({ stolen: 80, others: 10 });

interface FakeRound extends Measured {
  readonly name: string;
}

/** Pauses take no time; `waited` records their lengths. */
function contextWith(repeats: number): { context: RoundsContext; said: string[]; waited: number[] } {
  const said: string[] = [];
  const waited: number[] = [];
  const pause = async (ms: number): Promise<void> => void waited.push(ms);
  const policy = { ...LIMITS, repeats, pauseMs: 5000 };
  return { said, waited, context: { policy, progress: (text) => said.push(text), pause } };
}

/** Runs rounds with these losses, in this order; all later rounds are quiet. */
async function runWith(repeats: number, rounds: number, losses: readonly (Lost | undefined)[]) {
  const { context, said, waited } = contextWith(repeats);
  const left = [...losses];
  const series = await runRounds(context, { rounds }, async (round, attempt): Promise<FakeRound> => {
    return { name: `${round}.${attempt}`, lost: left.length > 0 ? left.shift() : QUIET };
  });
  return { names: series.counted.map(({ name }) => name), tally: tallyOf(series, LIMITS), said, waited };
}

test('a disturbed round is discarded and repeated', async () => {
  const { names, tally, said, waited } = await runWith(3, 2, [QUIET, DISTURBED, DISTURBED]);
  assert.deepEqual(names, ['1.0', '2.2']);
  assert.deepEqual(tally, { counted: 2, disturbed: 0, thrownAway: 2, stolen: 0, others: 0 });
  assert.match(said[0] ?? '', /33\.3 % stolen, 0\.0 % used by others; repetition 1 of 3/);
  assert.deepEqual(waited, [5000, 5000], 'each repetition gives the machine time to become quiet');
});

test('rounds of a row share their repetitions; after these a disturbed round counts and is marked', async () => {
  const { names, tally } = await runWith(3, 3, Array(6).fill(DISTURBED).with(5, WORSE));
  assert.deepEqual(names, ['1.3', '2.0', '3.0']);
  assert.deepEqual(tally, { counted: 3, disturbed: 3, thrownAway: 3, stolen: WORSE.stolen, others: WORSE.others });
});

test('without repetitions each round runs once and is marked', async () => {
  const { names, tally, waited } = await runWith(0, 2, [DISTURBED]);
  assert.deepEqual(waited, []);
  assert.deepEqual(names, ['1.0', '2.0']);
  assert.deepEqual([tally.counted, tally.disturbed, tally.thrownAway], [2, 1, 0]);
});

test('where losses are unknown no round is repeated and no share is shown', async () => {
  const { names, tally } = await runWith(3, 1, [undefined]);
  assert.deepEqual(names, ['1.0']);
  assert.deepEqual(tally, { counted: 1, disturbed: 0, thrownAway: 0 });
});

test('warm-up rounds run once, however disturbed, and do not count', async () => {
  const { context } = contextWith(3);
  const run: string[] = [];
  const series = await runRounds(context, { rounds: 1, warmUp: 2 }, async (round, attempt) => {
    run.push(`${round}.${attempt}`);
    return { lost: round > 0 ? QUIET : DISTURBED };
  });
  assert.deepEqual(run, ['-1.0', '0.0', '1.0']);
  assert.deepEqual([series.counted.length, series.thrownAway], [1, 0]);
});

test('a round that fails is not repeated', async () => {
  const { context } = contextWith(3);
  const series = createSeries<Measured>();
  await assert.rejects(
    addRound(context, series, () => Promise.reject(new Error('gone'))),
    /gone/,
  );
  assert.deepEqual(series, { counted: [], thrownAway: 0 });
});

test('a repeated round changes the same thing again, to another value', () => {
  const world = new World('/nowhere', { services: 12, endpoints: 2, namespaces: 2, content: 'mtls' });
  for (const kind of ['endpoint', 'route', 'policy', 'nothing visible'] as const) {
    const [first, second, next] = [world.change(kind, 1), world.change(kind, 1, 1), world.change(kind, 2)];
    assert.deepEqual([second.path, second.expect], [first.path, first.expect], kind);
    assert.equal(new Set([first.text, second.text, next.text]).size, 3, kind);
  }
});

test('one bad round of three decides the p99 of all rounds, but not that of the median round', () => {
  const { latency, medianRound } = latencyOf([
    [100, 155],
    [110, 150],
    [900, 1400],
  ]);
  assert.equal(latency?.p99, 1400);
  assert.deepEqual(medianRound, { p50: 110, p90: 155, p99: 155, max: 155 });
  assert.deepEqual(latencyOf([[], []]), {});
  assert.equal(latencyOf([[100], [900]]).medianRound?.p99, 500, 'of two rounds, neither the good nor the bad one');
});

const SIZE: Size = {
  services: 1000,
  endpoints: 5,
  proxies: 1000,
  namespaces: 10,
  mode: 'delta',
  security: 'plain',
  content: 'mtls',
};

function all(ms: number): Quantiles {
  return { p50: ms, p90: ms, p99: ms, max: ms };
}

function row(what: string, ms: number, serverCpu: number, rest: Partial<Row> = {}): Row {
  const bench = what === 'start to in sync' ? 'cold' : 'convergence';
  return { bench, what, size: SIZE, latency: all(ms), medianRound: all(ms), serverCpu, ...rest };
}

function verdicts(rows: readonly Row[]): (string | number | undefined)[][] {
  return (asideAims(rows)?.rows ?? []).map(([what, mode, figure, , , , verdict]) => [what, mode, figure, verdict]);
}

test('the table of aims shows measured figures beside their aims, reached or not', () => {
  const tally = { counted: 3, disturbed: 1, thrownAway: 3 };
  const rows = [
    row('start to in sync', 5900, 6.5, { rssMiB: 250, peakMiB: 700 }),
    row('endpoint', 1400, 0.07, { medianRound: all(155), rounds: tally }),
    row('policy', 9000, 9),
    { ...row('nothing visible', 0, 0.01), bytes: 17 },
  ];
  assert.deepEqual(verdicts(rows), [
    ['cold start, all in sync', 'delta', 'max s', 'reached'],
    ['cold start, all in sync', 'delta', 'CPU s', 'not reached'],
    ['memory', 'delta', 'MiB now', 'reached'],
    ['memory', 'delta', 'MiB at peak', 'not reached'],
    ['one endpoint changed', 'delta', 'p99 s', 'not reached (reached in the median round; disturbed)'],
    ['one endpoint changed', 'delta', 'CPU s', 'reached'],
    ['a change that nobody sees', 'delta', 'bytes sent', 'not reached'],
    ['a change that nobody sees', 'delta', 'CPU s', 'reached'],
  ]);
});

test('an aim for one protocol is not applied to the other', () => {
  const size: Size = { ...SIZE, mode: 'sotw' };
  const rows = [row('service added', 4400, 2.4), row('service added', 4400, 2.4, { size })];
  assert.deepEqual(verdicts(rows), [
    ['one service added', 'delta', 'p99 s', 'not reached'],
    ['one service added', 'delta', 'CPU s', 'not reached'],
    ['one service added', 'sotw', 'p99 s', 'reached'],
    ['one service added', 'sotw', 'CPU s', 'reached'],
  ]);
});

test('over TLS the ratio to plain text of the same run is judged, and nothing without plain text', () => {
  const size: Size = { ...SIZE, security: 'mtls' };
  const secured = row('route', 300, 0.3, { size });
  assert.equal(asideAims([secured]), undefined);
  const aims = asideAims([row('route', 200, 0.1), secured]);
  assert.deepEqual(aims?.rows.slice(2), [
    ['one route changed', 'delta, TLS', 'p99 s', '1.60 x plain', '1.50 x plain', '1.50 x plain', 'reached'],
    ['one route changed', 'delta, TLS', 'CPU s', '1.60 x plain', '3.00 x plain', undefined, 'not reached'],
  ]);
});

test('a reached ratio to plain text says if it was measured on a disturbed machine', () => {
  const rounds = { counted: 1, disturbed: 1, thrownAway: 1 };
  const secured = row('route', 300, 0.1, { size: { ...SIZE, security: 'mtls' } });
  assert.deepEqual(
    verdicts([row('route', 900, 0.1, { rounds }), secured]).map(([, , , verdict]) => verdict),
    ['reached', 'reached', 'reached (disturbed)', 'reached (disturbed)'],
  );
});

test('a mesh of another size has no aims', () => {
  assert.equal(asideAims([row('route', 1, 1, { size: { ...SIZE, proxies: 999 } })]), undefined);
  assert.equal(asideAims([]), undefined);
});

test('the table shows how many rounds count, and moves columns with one value to its title', () => {
  const rounds = { counted: 3, disturbed: 1, thrownAway: 2, stolen: 0.123, others: 0.04 };
  const plain = row('route', 100, 1, { rounds });
  const [table] = tablesOf([{ rows: [plain, row('endpoint', 100, 1)] }]);
  assert.equal(table?.title, 'Results, delta, 1000 x 5 services, proxies 1000 in 10');
  assert.match(asText(table), /^convergence +route +3 of 5 \(1!\) +12\.3 % +4\.0 % +100 +100 +100 +100 +100 /m);
  const [mixed] = tablesOf([{ rows: [plain, row('route', 100, 1, { size: { ...SIZE, mode: 'sotw' } })] }]);
  assert.ok(mixed?.columns.includes('mode') && !mixed.columns.includes('services'));
});

test('the command line sets which rounds are disturbed and how many are repeated', () => {
  const policyOf = (...args: string[]) => parseCommandLine(args).runs[0]?.policy;
  assert.deepEqual(policyOf(), { repeats: 3, pauseMs: 5000, stolen: 0.03, others: 0.1 });
  assert.deepEqual(policyOf('--repeats', '0', '--pause', '1', '--stolen', '2.5', '--others', '100'), {
    repeats: 0,
    pauseMs: 1000,
    stolen: 0.025,
    others: 1,
  });
  assert.throws(() => policyOf('--stolen=-1'), /--stolen: 0 to 100 percent/);
  assert.throws(() => policyOf('--others', 'some'), /--others: 0 to 100 percent/);
  assert.throws(() => policyOf('--repeats', '1.5'), /--repeats: a whole number/);
});
