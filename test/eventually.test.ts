/** The harness waits by progress and by the share of the machine that is available, not by the clock alone. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { claim, eventually, freePorts, GiveUp } from './harness/index.ts';

/** A clock that advances by sleeping. */
function clock(crowding = 1) {
  let time = 0;
  const sleep = async (ms: number) => {
    time += ms;
  };
  return { now: () => time, sleep, crowding: () => crowding };
}

const never = (message: (attempt: number) => string) => {
  let attempts = 0;
  return () => {
    throw new Error(message(++attempts));
  };
};

const OPTIONS = { timeoutMs: 1_000, intervalMs: 100 };

async function waitedFor(message: (attempt: number) => string, crowding = 1): Promise<number> {
  const machine = clock(crowding);
  await assert.rejects(eventually(never(message), OPTIONS, machine));
  return machine.now();
}

test('waiting ends at the timeout when there is no progress', async () => {
  assert.equal(await waitedFor(() => 'no'), 1_000);
});

test('on a crowded machine the timeout is longer, and still ends the wait', async () => {
  assert.equal(await waitedFor(() => 'no', 4), 4_000);
  assert.equal(await waitedFor(() => 'no', 1_000), 10_000);
});

test('a different error is progress, different numbers in it are not', async () => {
  assert.equal(await waitedFor((attempt) => (attempt <= 5 ? 'refused' : 'answered 503')), 1_500);
  assert.equal(await waitedFor((attempt) => `port ${attempt}`), 1_000);
});

test('an error that differs each time does not count as progress without end', async () => {
  assert.equal(await waitedFor((attempt) => 'x'.repeat(attempt)), 2_500);
});

test('without an interval, attempts become rarer in a long wait', async () => {
  const machine = clock();
  const times: number[] = [];
  const attempt = () => {
    times.push(machine.now());
    throw new Error('no');
  };
  await assert.rejects(eventually(attempt, { timeoutMs: 10_000 }, machine));
  const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  assert.equal(pauses[0], 25);
  assert.equal(pauses.at(-1), 250);
  assert.ok(times.length < 80, `${times.length} attempts`);
});

test('without an interval, an attempt that takes long is followed by a pause three times as long', async () => {
  const machine = clock();
  const begins: number[] = [];
  const attempt = async () => {
    begins.push(machine.now());
    await machine.sleep(20);
    throw new Error('no');
  };
  await assert.rejects(eventually(attempt, { timeoutMs: 500 }, machine));
  assert.equal((begins[1] ?? 0) - (begins[0] ?? 0), 80);
});

test('a result in time is returned, and a hopeless attempt ends the wait', async () => {
  let attempts = 0;
  const third = () => {
    if (++attempts < 3) throw new Error('not yet');
    return attempts;
  };
  assert.equal(await eventually(third, OPTIONS, clock()), 3);
  const machine = clock();
  await assert.rejects(
    eventually(
      () => {
        throw new GiveUp('over');
      },
      OPTIONS,
      machine,
    ),
    { message: 'over' },
  );
  assert.equal(machine.now(), 0);
});

test('a reserved name is visible to other processes, and is freed when its process ends', async () => {
  const module = JSON.stringify(join(import.meta.dirname, 'harness/claims.ts'));
  const name = `test-${process.pid}-${Math.random()}`;
  const call = `console.log(claim(${JSON.stringify(name)}))`;
  const script = `import { claim } from ${module}; ${call}; setInterval(() => {}, 1000);`;
  const other = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [said] = (await once(other.stdout, 'data')) as [Buffer];
  assert.equal(String(said), 'true\n');
  assert.equal(claim(name), false);
  other.kill('SIGKILL');
  await once(other, 'exit');
  assert.equal(claim(name), true);
  assert.equal(claim(name), false);
});

test('reserved ports are not given out again', async () => {
  const ports = [...(await freePorts(40)), ...(await freePorts(40))];
  assert.equal(new Set(ports).size, 80);
});

test('an attempt that returns false ends the wait as a mistake of the test', async () => {
  await assert.rejects(
    eventually(() => false, OPTIONS, clock()),
    GiveUp,
  );
});
