import assert from 'node:assert/strict';
import { appendFile, chmod, mkdir, mkdtemp, rename, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Clock, systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { keyOf, type ResourceEvent } from '../../resources/types.ts';
import { createDirectorySource } from './directory.ts';

const service = (name: string, port = 80) =>
  `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {ports: [{port: ${port}}]}\n`;

/** Follows a directory for one test; `until` waits for a state that the events lead to. */
async function follow(
  context: TestContext,
  prepare: (dir: string) => Promise<unknown> = async () => {},
  clock: Clock = systemClock,
) {
  const base = await mkdtemp(join(tmpdir(), 'meshd-directory-'));
  const dir = join(base, 'config');
  await mkdir(dir);
  await prepare(dir);
  const state = new Map<string, number | undefined>();
  const problems = new Map<string, string>();
  const warnings: string[] = [];
  const sets: string[] = [];
  const deletes: string[] = [];
  /** For how long it had been quiet when a batch came, according to the source. */
  const quiet: number[] = [];
  /** Times at which changes were announced. */
  const signs: number[] = [];
  /** Messages of all problems there have been. */
  const seen: string[] = [];
  let synced = false;
  let failure: string | undefined;
  let wake = () => {};
  const note = (message: string) => {
    warnings.push(message);
    wake();
  };
  const take = (event: ResourceEvent): void => {
    if (event.type === 'set') {
      assert.ok(event.resource.kind === 'Service');
      sets.push(event.resource.meta.name);
      state.set(event.resource.meta.name, event.resource.content.spec.ports?.[0]?.port);
      problems.delete(keyOf(event.resource));
    } else if (event.type === 'delete') {
      deletes.push(event.key);
      state.delete(event.key.slice('Service/default/'.length));
    } else if (event.type === 'invalid') {
      seen.push(event.problem.message);
      problems.set(event.problem.id, event.problem.message);
    } else problems.delete(event.id);
  };
  const source = createDirectorySource({
    dir,
    cluster: 'c',
    log: { debug: () => {}, info: () => {}, warn: note, error: note },
    clock,
    resyncMs: 0,
  });
  context.after(async () => {
    await source.close();
    await rm(base, { recursive: true, force: true });
  });
  const until = async (what: string, condition: () => boolean): Promise<void> => {
    const deadline = Date.now() + 10_000;
    while (!condition()) {
      assert.ok(
        Date.now() < deadline,
        `never: ${what}; state ${JSON.stringify([...state])}, problems ${JSON.stringify([...problems])}`,
      );
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 200);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const is = (expected: Record<string, number>) => until(JSON.stringify(expected), () => same(state, expected));
  source.start({
    apply: (events, seenAt = 0) => {
      quiet.push(clock.now() - seenAt);
      for (const event of events) take(event);
      wake();
    },
    replace: () => assert.fail('a directory tells changes'),
    changing: (at) => void signs.push(at),
  });
  source.synced
    .then(() => {
      synced = true;
    })
    .catch((error: unknown) => {
      failure = error instanceof CtlError ? error.oneLine() : String(error);
    })
    .finally(() => wake());
  const isSynced = () => synced;
  return {
    dir,
    base,
    source,
    state,
    problems,
    seen,
    quiet,
    signs,
    warnings,
    sets,
    deletes,
    until,
    is,
    isSynced,
    failed: () => failure,
  };
}

/** A clock that advances only when the test says so. */
function fakeClock(): Clock & { advance(ms: number): void } {
  let now = 0;
  const timers = new Map<object, { readonly at: number; readonly run: () => void }>();
  return {
    now: () => now,
    setTimer(ms, run) {
      const timer = { cancel: () => void timers.delete(timer) };
      timers.set(timer, { at: now + ms, run });
      return timer;
    },
    advance(ms) {
      const end = now + ms;
      for (;;) {
        const [next] = [...timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next[0]);
        now = next[1].at;
        next[1].run();
      }
      now = end;
    },
  };
}

function same(state: ReadonlyMap<string, number | undefined>, expected: Record<string, number>): boolean {
  const entries = Object.entries(expected);
  return state.size === entries.length && entries.every(([name, port]) => state.get(name) === port);
}

test('a batch states since when it has been quiet; a state that only lasted is not announced', async (context) => {
  const clock = fakeClock();
  const { dir, quiet, signs, state, is } = await follow(
    context,
    (dir) => writeFile(join(dir, 'a.yaml'), service('a')),
    clock,
  );
  const passing = async (condition: () => boolean): Promise<void> => {
    for (let turns = 0; !condition(); turns++) {
      assert.ok(turns < 10_000);
      await new Promise((resolve) => setTimeout(resolve, 1));
      clock.advance(1);
    }
  };
  await is({ a: 80 });
  await writeFile(join(dir, 'notes.txt'), 'no resource');
  await writeFile(join(dir, 'b.yaml'), service('b'));
  await passing(() => signs.length > 0);
  assert.equal(state.has('b'), false);
  await passing(() => state.has('b'));
  await unlink(join(dir, 'a.yaml'));
  await passing(() => !state.has('a'));
  const [first, ofEvent = 0, ofLasting] = quiet;
  assert.deepEqual([first, ofLasting], [0, 0]);
  assert.ok(ofEvent >= 10);
});

test('follows edits, new files, new directories and deletions, reading only what changed', async (context) => {
  const { dir, is, sets, until, isSynced } = await follow(context, async (dir) => {
    await writeFile(join(dir, 'a.yaml'), service('a'));
    await writeFile(join(dir, 'b.yaml'), service('b'));
    await writeFile(join(dir, '.hidden.yaml'), service('hidden'));
    await writeFile(join(dir, 'readme.txt'), 'no');
  });
  await until('synced', isSynced);
  await is({ a: 80, b: 80 });
  sets.length = 0;
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81, b: 80 });
  assert.deepEqual(sets, ['a']);
  await mkdir(join(dir, 'deep', 'deeper'), { recursive: true });
  await writeFile(join(dir, 'deep', 'deeper', 'c.yml'), service('c'));
  await is({ a: 81, b: 80, c: 80 });
  await writeFile(join(dir, 'deep', 'deeper', 'c.yml'), service('c', 82));
  await is({ a: 81, b: 80, c: 82 });
  await unlink(join(dir, 'b.yaml'));
  await rm(join(dir, 'deep'), { recursive: true });
  await is({ a: 81 });
});

test('a renamed file is not a duplicate of itself, and its resources never disappear', async (context) => {
  const { dir, is, source, state, seen, sets } = await follow(context, async (at) => {
    await writeFile(join(at, 'a.yaml'), service('one'));
    await writeFile(join(at, 'z.yaml'), service('two'));
  });
  await is({ one: 80, two: 80 });
  await rename(join(dir, 'a.yaml'), join(dir, 'b.yaml'));
  await rename(join(dir, 'z.yaml'), join(dir, 'c.yaml'));
  await writeFile(join(dir, 'd.yaml'), service('three'));
  await is({ one: 80, two: 80, three: 80 });
  // The renamed resources belong to the new files: their edits count.
  await writeFile(join(dir, 'b.yaml'), service('one', 81));
  await is({ one: 81, two: 80, three: 80 });
  await source.close();
  assert.deepEqual(seen, []);
  assert.ok(sets.includes('three') && state.size === 3);
});

test('a file in place of the directory is reported, and what the directory gave stays in force', async (context) => {
  const { dir, warnings, until, is, state } = await follow(context, (at) =>
    writeFile(join(at, 'a.yaml'), service('one')),
  );
  await is({ one: 80 });
  await rm(dir, { recursive: true });
  await writeFile(dir, service('two'));
  await until('a warning', () => warnings.some((warning) => warning.includes('is no directory')));
  assert.deepEqual([...state.keys()], ['one']);
  await unlink(dir);
  await mkdir(dir);
  await writeFile(join(dir, 'a.yaml'), service('one', 81));
  await is({ one: 81 });
});

test('documents of kinds that are not read are reported once', async (context) => {
  const other = (kind: string) => `apiVersion: telemetry.istio.io/v1\nkind: ${kind}\nmetadata: {name: x}\n`;
  const { dir, is, warnings } = await follow(context, (at) =>
    writeFile(join(at, 'a.yaml'), `${service('a')}---\n${other('Telemetry')}---\n${other('Telemetry')}`),
  );
  await is({ a: 80 });
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /2 documents of telemetry.istio.io\/v1 Telemetry \(the first is .*a.yaml:6\)/);
  await writeFile(join(dir, 'a.yaml'), `${service('a', 81)}---\n${other('Telemetry')}---\n${other('Other')}`);
  await is({ a: 81 });
  assert.equal(warnings.length, 2);
  assert.match(warnings[1] ?? '', /1 document of telemetry.istio.io\/v1 Other/);
});

test('an atomic rename replaces a file, and its resources never disappear', async (context) => {
  const { dir, base, is, state } = await follow(context, (dir) => writeFile(join(dir, 'a.yaml'), service('a')));
  await is({ a: 80 });
  for (let port = 81; port < 85; port++) {
    await writeFile(join(base, 'next'), service('a', port));
    await rename(join(base, 'next'), join(dir, 'a.yaml'));
    await is({ a: port });
    assert.equal(state.size, 1);
  }
});

test('a mounted volume is followed when its hidden link is swapped, three times', async (context) => {
  const { dir, is } = await follow(context, async (dir) => {
    await mkdir(join(dir, '..v0'));
    await writeFile(join(dir, '..v0', 'a.yaml'), service('a'));
    await symlink('..v0', join(dir, '..data'));
    await symlink('..data/a.yaml', join(dir, 'a.yaml'));
  });
  await is({ a: 80 });
  for (const version of [1, 2, 3]) {
    await mkdir(join(dir, `..v${version}`));
    await writeFile(join(dir, `..v${version}`, 'a.yaml'), service('a', 80 + version));
    await symlink(`..v${version}`, join(dir, '..data_tmp'));
    await rename(join(dir, '..data_tmp'), join(dir, '..data'));
    await rm(join(dir, `..v${version - 1}`), { recursive: true });
    await is({ a: 80 + version });
  }
});

test('a linked file is followed at its target', async (context) => {
  const { base, is } = await follow(context, async (dir) => {
    await mkdir(join(dir, '..', 'elsewhere'));
    await writeFile(join(dir, '..', 'elsewhere', 'a.yaml'), service('a'));
    await symlink('../elsewhere/a.yaml', join(dir, 'a.yaml'));
  });
  await is({ a: 80 });
  await writeFile(join(base, 'elsewhere', 'a.yaml'), service('a', 81));
  await is({ a: 81 });
});

test('a link out of the directory gives the files directly in its target, and nothing below', async (context) => {
  const { is, problems, dir, base } = await follow(context, async (dir) => {
    const outside = join(dir, '..', 'outside');
    await mkdir(join(outside, 'deep'), { recursive: true });
    await writeFile(join(outside, 'a.yaml'), service('a'));
    await writeFile(join(outside, 'deep', 'b.yaml'), service('b'));
    await symlink(outside, join(dir, 'team'));
    await symlink('/', join(dir, 'root'));
  });
  await is({ a: 80 });
  const link = join(dir, 'team');
  assert.match(problems.get(link) ?? '', /leads out of the configuration directory: .* a directory below it not/);
  assert.match(problems.get(join(dir, 'root')) ?? '', /leads out of the configuration directory/);
  await writeFile(join(base, 'outside', 'a.yaml'), service('a', 81));
  await is({ a: 81 });
  await rm(join(base, 'outside', 'deep'), { recursive: true });
  await writeFile(join(dir, 'c.yaml'), service('c'));
  await unlink(join(dir, 'root'));
  await is({ a: 81, c: 80 });
});

test('links that form a loop are reported and not followed; other links are followed', async (context) => {
  const { is, problems, dir, until } = await follow(context, async (dir) => {
    await mkdir(join(dir, 'one', 'two'), { recursive: true });
    await mkdir(join(dir, '.releases', '5'), { recursive: true });
    await writeFile(join(dir, 'one', 'a.yaml'), service('a'));
    await writeFile(join(dir, '.releases', '5', 'b.yaml'), service('b'));
    await symlink('.releases/5', join(dir, 'current'));
    await symlink('..', join(dir, 'one', 'two', 'up'));
    await symlink('loop.yaml', join(dir, 'loop.yaml'));
  });
  await is({ a: 80, b: 80 });
  const up = join(dir, 'one', 'two', 'up');
  assert.match(problems.get(up) ?? '', /expected a link to a directory that does not hold it/);
  assert.match(problems.get(join(dir, 'loop.yaml')) ?? '', /a link that leads to itself/);
  await unlink(up);
  await unlink(join(dir, 'loop.yaml'));
  await until('no problem left', () => problems.size === 0);
});

test('a name that is not UTF-8 is reported', async (context) => {
  const { is, problems, dir } = await follow(context, async (dir) => {
    await writeFile(Buffer.concat([Buffer.from(`${dir}/`), Buffer.of(0xff), Buffer.from('.yaml')]), service('x'));
    await writeFile(join(dir, 'a.yaml'), service('a'));
  });
  await is({ a: 80 });
  assert.deepEqual([...problems], [[join(dir, '\ufffd.yaml'), 'expected a name in UTF-8; it is not read']]);
});

test('reading a file of thousands of refused documents leaves time for other work', async (context) => {
  const bad = 'apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: x}]}\n---\n';
  let turns = 0;
  const { until, isSynced, problems } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), bad.repeat(2000) + service('a')),
  );
  const count = (): void => {
    turns++;
    if (!isSynced()) setImmediate(count);
  };
  setImmediate(count);
  await until('read', () => problems.size > 0);
  assert.ok(turns > 20, `${turns} turns of the event loop`);
});

test('half-written files: nothing is lost, and nothing is reported that is completed soon', async (context) => {
  const { dir, is, problems, state } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), `${service('a')}---\n${service('b')}`),
  );
  await is({ a: 80, b: 80 });
  await writeFile(join(dir, 'a.yaml'), '');
  await new Promise((resolve) => setTimeout(resolve, 20));
  await appendFile(join(dir, 'a.yaml'), `${service('a', 81)}---\nkind: [`);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(state.size, 2);
  await writeFile(join(dir, 'a.yaml'), `${service('a', 82)}---\n${service('b', 82)}`);
  await is({ a: 82, b: 82 });
  assert.equal(problems.size, 0);
});

test('an empty file counts later than other states, because slow writers empty first', async (context) => {
  const { dir, is, state } = await follow(context, (dir) => writeFile(join(dir, 'a.yaml'), service('a')));
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), '');
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(state.size, 1);
  await is({});
});

test('a bad file between good ones keeps its last good version, and is resolved', async (context) => {
  const { dir, is, problems, until } = await follow(context, (dir) => writeFile(join(dir, 'a.yaml'), service('a')));
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), 'a: [');
  await until('a problem', () => problems.size === 1);
  await writeFile(join(dir, 'b.yaml'), service('b'));
  await is({ a: 80, b: 80 });
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81, b: 80 });
  await until('no problem', () => problems.size === 0);
});

test('a file that is not UTF-8 is refused with its line and keeps its resources; U+FFFD is valid', async (context) => {
  const { dir, is, problems, until } = await follow(context, (at) => writeFile(join(at, 'a.yaml'), service('a')));
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), Buffer.from(`${service('a', 81)}# M\xfcnchen\n`, 'latin1'));
  await until('a problem', () => problems.size === 1);
  assert.deepEqual([...problems], [[join(dir, 'a.yaml'), 'expected UTF-8: there are bytes that are none']]);
  await is({ a: 80 });
  await writeFile(join(dir, 'a.yaml'), `${service('a', 82)}# \ufffd\n`);
  await is({ a: 82 });
  assert.equal(problems.size, 0);
});

test('a half-written character is waited for', async (context) => {
  const { dir, is, seen } = await follow(context, (at) => writeFile(join(at, 'a.yaml'), service('a')));
  await is({ a: 80 });
  const whole = Buffer.from(`${service('a', 81)}# \u00fc\n`);
  await writeFile(join(dir, 'a.yaml'), whole.subarray(0, -2));
  await new Promise((resolve) => setTimeout(resolve, 25));
  await appendFile(join(dir, 'a.yaml'), whole.subarray(-2));
  await is({ a: 81 });
  assert.deepEqual(seen, []);
});

test('a directory that disappears keeps its resources in force, and is followed when it is back', async (context) => {
  const { dir, is, until, state, warnings, source } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), service('a')),
  );
  await is({ a: 80 });
  assert.deepEqual(source.health(), { ok: true });
  await rm(dir, { recursive: true });
  await until('a warning', () => warnings.some((line) => line.includes('stays in force')));
  assert.equal(state.size, 1);
  assert.deepEqual(source.health(), { ok: false, reason: `config directory ${dir} does not exist` });
  await mkdir(dir);
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81 });
  assert.deepEqual([warnings.length, source.health()], [1, { ok: true }]);
  await writeFile(join(dir, 'a.yaml'), service('a', 82));
  await is({ a: 82 });
});

test('files that disappear just before their directory do not count as deleted', async (context) => {
  const clock = fakeClock();
  const { base, dir, until, state, deletes, source } = await follow(
    context,
    async (at) => {
      for (const name of ['a', 'b']) await writeFile(join(at, `${name}.yaml`), service(name));
    },
    clock,
  );
  const untilTimePasses = (what: string, condition: () => boolean) =>
    until(what, () => {
      clock.advance(10);
      return condition();
    });
  await until('a first reading', () => state.size === 2);
  await unlink(join(dir, 'a.yaml'));
  await writeFile(join(dir, 'b.yaml'), service('b', 81));
  await untilTimePasses('a look at both', () => state.get('b') === 81);
  await rm(dir, { recursive: true });
  await untilTimePasses('a warning', () => !source.health().ok);
  // Time for scans for missing files, and for reading.
  for (let round = 0; round < 50; round++) {
    clock.advance(20);
    await stat(base);
  }
  await mkdir(dir);
  for (const name of ['a', 'b']) await writeFile(join(dir, `${name}.yaml`), service(name, 82));
  await untilTimePasses('the directory is back', () => state.get('a') === 82 && state.get('b') === 82);
  assert.deepEqual(deletes, []);
});

test('an empty directory in place of the one that was read deletes nothing until it has a file', async (context) => {
  const { dir, is, until, state, source, warnings } = await follow(context, async (at) => {
    for (const name of ['a', 'b']) await writeFile(join(at, `${name}.yaml`), service(name));
  });
  await is({ a: 80, b: 80 });
  await rm(dir, { recursive: true });
  await until('it is gone', () => !source.health().ok);
  await mkdir(dir);
  await until('it is back, empty', () => warnings.length === 2);
  const reason = `config directory ${dir} is another one than before, and empty`;
  assert.equal(warnings[1], `${reason}; what was there stays in force until there is a file in it`);
  assert.deepEqual([state.size, source.health()], [2, { ok: false, reason }]);
  await writeFile(join(dir, 'a.yaml'), service('a', 81));
  await is({ a: 81 });
  assert.deepEqual(source.health(), { ok: true });
  await unlink(join(dir, 'a.yaml'));
  await is({});
});

test('a directory that is missing at start is waited for', async (context) => {
  const { dir, is, until, warnings, isSynced } = await follow(context, (dir) => rm(dir, { recursive: true }));
  await until('a warning', () => warnings.length > 0);
  assert.match(warnings[0] ?? '', /does not exist; waiting/);
  assert.equal(isSynced(), false);
  await mkdir(dir);
  await writeFile(join(dir, 'a.yaml'), service('a'));
  await is({ a: 80 });
  assert.equal(isSynced(), true);
});

test('a directory missing at start is reported again until it has been read', async (context) => {
  const clock = fakeClock();
  const { dir, until, warnings, isSynced } = await follow(context, (at) => rm(at, { recursive: true }), clock);
  await until('a warning', () => warnings.length === 1);
  for (const [seconds, after] of [
    [5, 5],
    [60, 65],
    [60, 125],
  ] as const) {
    warnings.length = 0;
    clock.advance(seconds * 1000);
    assert.deepEqual(warnings, [
      `config directory ${dir} does not exist, for ${after} s now; nothing is served until it is there`,
    ]);
  }
  await mkdir(dir);
  // Its event waits for the clock, and so does the next reminder, which scans.
  await until('synced', () => {
    clock.advance(1000);
    return isSynced();
  });
  warnings.length = 0;
  clock.advance(600_000);
  assert.deepEqual(warnings, []);
});

test('an unreadable file is a problem and keeps its resources', {
  skip: process.getuid?.() === 0,
}, async (context) => {
  const { dir, is, problems, until, state } = await follow(context, (dir) =>
    writeFile(join(dir, 'a.yaml'), service('a')),
  );
  await is({ a: 80 });
  await chmod(join(dir, 'a.yaml'), 0);
  await until('a problem', () => problems.size === 1);
  assert.equal(state.get('a'), 80);
});

const UNREADABLE_AT_START: Readonly<Record<string, { make: (dir: string) => Promise<unknown>; says: RegExp }>> = {
  'the directory is a file': {
    make: async (dir) => {
      await rm(dir, { recursive: true });
      await writeFile(dir, 'x');
    },
    says: /config: the directory of --configDir is no directory$/,
  },
  'a file is larger than what is read': {
    make: (dir) => writeFile(join(dir, 'large.yaml'), Buffer.alloc(16 * 1024 * 1024 + 1)),
    says: /large\.yaml: expected a file of at most 16777216 bytes, got 16777217 bytes$/,
  },
};

for (const [what, { make, says }] of Object.entries(UNREADABLE_AT_START)) {
  test(`a document that cannot be read at start ends the start: ${what}`, async (context) => {
    const { until, failed, isSynced, state } = await follow(context, async (dir) => {
      await writeFile(join(dir, 'good.yaml'), service('good'));
      await make(dir);
    });
    await until('a failure', () => failed() !== undefined);
    assert.match(failed() ?? '', says);
    assert.equal(isSynced(), false);
    assert.equal(state.size, 0);
  });
}
