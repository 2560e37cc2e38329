import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CREDENTIAL_ENDED } from '../../core/stream-end.ts';
import { getScope, setLevel } from '../../logging/index.ts';
import { envoyArguments } from './command.ts';
import { logEnvoyLine, parseLogLine } from './log-line.ts';
import type { EnvoyExit, EnvoyProcess } from './process.ts';
import { type SupervisorDeps, superviseEnvoy } from './supervisor.ts';

setLevel('default', 'none');

/** A sequence of Envoys that end as configured, each after a time; the last one runs until it is signaled. */
function envoys(...ends: readonly { readonly afterMs: number; readonly exit: EnvoyExit; readonly lines?: string[] }[]) {
  let clock = 0;
  const started: number[] = [];
  const signals: string[] = [];
  const waits: number[] = [];
  const passedOn: string[] = [];
  const deps: SupervisorDeps = {
    async start(onLine): Promise<EnvoyProcess> {
      const end = ends[started.length];
      const last = Promise.withResolvers<EnvoyExit>();
      started.push(clock);
      const kill = (signal: 'SIGTERM' | 'SIGKILL') => {
        signals.push(signal);
        last.resolve({ code: null, signal });
      };
      if (end === undefined) return { pid: started.length, exited: last.promise, kill };
      end.lines?.forEach(onLine);
      // The time passes while the test waits for the end.
      const exited = Promise.resolve().then(() => {
        clock += end.afterMs;
        return end.exit;
      });
      return { pid: started.length, exited, kill };
    },
    now: () => clock,
    async sleep(ms) {
      waits.push(ms);
      clock += ms;
    },
    random: () => 0,
    log: getScope('default'),
    passOn: (line) => void passedOn.push(line),
    onStart: () => undefined,
  };
  return { deps, started, signals, waits, passedOn };
}

const CRASH = { code: null, signal: 'SIGSEGV' } as const;
const FAILED = { code: 1, signal: null } as const;

describe('superviseEnvoy', () => {
  test('waits longer after each failure in a row, and gives up after ten', async () => {
    const { deps, waits, started } = envoys(...Array.from({ length: 20 }, () => ({ afterMs: 5, exit: CRASH })));
    assert.deepEqual(await superviseEnvoy(deps).ended, { kind: 'failed', failures: 11, reason: 'signal SIGSEGV' });
    assert.deepEqual(waits, [200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000, 10000]);
    assert.equal(started.length, 11);
  });

  test('the count of failures restarts after an Envoy has run for a minute', async () => {
    const long = { afterMs: 60_000, exit: CRASH };
    const { deps, waits } = envoys({ afterMs: 5, exit: CRASH }, { afterMs: 5, exit: CRASH }, long, long, {
      afterMs: 5,
      exit: { code: 0, signal: null },
    });
    assert.deepEqual(await superviseEnvoy(deps).ended, { kind: 'quit' });
    assert.deepEqual(waits, [200, 400, 200, 200]);
  });

  test('a refused bootstrap is not tried again, a port that is in use is', async () => {
    const line =
      '[critical][main] error `Protobuf message (no such\\n  field) has unknown fields` ' +
      "initializing config \\'x.json\\'";
    const refused = envoys({ afterMs: 5, exit: FAILED, lines: [line] });
    assert.deepEqual(await superviseEnvoy(refused.deps).ended, {
      kind: 'rejected',
      reason: 'Protobuf message (no such field) has unknown fields',
    });
    const busy =
      "[critical][main] error initializing config 'x': cannot bind '127.0.0.1:15000': Address already in use";
    const taken = envoys({ afterMs: 5, exit: FAILED, lines: [busy] }, { afterMs: 5, exit: { code: 0, signal: null } });
    assert.deepEqual(await superviseEnvoy(taken.deps).ended, { kind: 'quit' });
  });

  test('the final error names the address of a port that is in use for too long', async () => {
    const busy = "[critical][main] error `cannot bind '1.2.3.4:80'` initializing config 'x.json'";
    const { deps } = envoys(...Array.from({ length: 11 }, () => ({ afterMs: 5, exit: FAILED, lines: [busy] })));
    const reason = "exit code 1: cannot bind '1.2.3.4:80'";
    assert.deepEqual(await superviseEnvoy(deps).ended, { kind: 'failed', failures: 11, reason });
  });

  test('lines that are not of the log are passed on, except the repetition of a logged refusal', async () => {
    const refusal = "[critical][main] error `no such\\n  field` initializing config 'x.json'";
    const lines = ['{"status":200}', refusal, 'no such', '  field', 'GET / 200'];
    const { deps, passedOn } = envoys({ afterMs: 5, exit: FAILED, lines });
    await superviseEnvoy(deps).ended;
    assert.deepEqual(passedOn, ['{"status":200}', 'GET / 200']);
  });

  test('a retired supervisor starts nothing more, whether an Envoy runs or the next one is waited for', async () => {
    const running = envoys();
    const supervisor = superviseEnvoy(running.deps);
    await new Promise(setImmediate);
    assert.equal(supervisor.pid(), 1);
    supervisor.retire();
    supervisor.signal('SIGTERM');
    assert.deepEqual(await supervisor.ended, { kind: 'stopped' });
    assert.deepEqual([running.signals, supervisor.pid(), running.started.length], [['SIGTERM'], undefined, 1]);

    const waiting = envoys({ afterMs: 5, exit: CRASH });
    const asleep = Promise.withResolvers<void>();
    const woken: SupervisorDeps['sleep'] = (_, signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', resolve);
        asleep.resolve();
      });
    const second = superviseEnvoy({ ...waiting.deps, sleep: woken });
    await asleep.promise;
    second.retire();
    assert.deepEqual(await second.ended, { kind: 'stopped' });
  });

  test('an Envoy that starts after the supervisor was retired is killed and not reported', async () => {
    const { deps, signals } = envoys();
    const reported: number[] = [];
    const supervisor = superviseEnvoy({ ...deps, onStart: (run) => reported.push(run) });
    supervisor.retire();
    assert.deepEqual(await supervisor.ended, { kind: 'stopped' });
    assert.deepEqual([signals, reported], [['SIGKILL'], []]);
  });

  test('a program that cannot be started is no reason to try again', async () => {
    const { deps } = envoys();
    const supervisor = superviseEnvoy({ ...deps, start: () => Promise.reject(new Error('no such file')) });
    await assert.rejects(supervisor.ended, /no such file/);
  });
});

describe("Envoy's log", () => {
  test('levels become those of the agent', () => {
    assert.deepEqual(parseLogLine('[warning][config] a [b] c'), {
      level: 'warn',
      component: 'config',
      text: 'a [b] c',
    });
    assert.equal(parseLogLine('[critical][main] x')?.level, 'error');
    assert.equal(parseLogLine('[trace][main] x')?.level, 'debug');
  });

  test('escapes of Envoy are undone, and a line that is not a log line is not read as one', () => {
    assert.equal(parseLogLine("[info][main] a\\n\\tb \\'c\\' \\\\d")?.text, "a\n\tb 'c' \\d");
    assert.equal(parseLogLine('ld.so: no'), undefined);
  });
});

test("Envoy's command line has what was said, and nothing for what was not", () => {
  const options = {
    binary: 'x',
    configPath: 'c',
    concurrency: 0,
    logLevel: 'warning',
    componentLogLevel: '',
    ipv6: true,
    drainMs: 400,
  };
  const args = envoyArguments(options).join(' ');
  assert.match(
    args,
    /^--config-path c --disable-hot-restart --drain-time-s 1 --drain-strategy immediate --local-address-ip-version v6 /,
  );
  assert.doesNotMatch(args, /--concurrency|--component-log-level/);
  const more = envoyArguments({ ...options, concurrency: 2, componentLogLevel: 'misc:error' }).join(' ');
  assert.match(more, /--component-log-level misc:error --concurrency 2$/);
});

test('the end of a stream with its credential is not logged as a warning', () => {
  const lines: string[] = [];
  const note = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  const log = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') };
  const ended = (reason: string) =>
    `[warning][config] DeltaAggregatedResources gRPC config stream closed since 18s ago: 14, ${reason}`;
  for (const text of [ended(CREDENTIAL_ENDED), ended('connection refused')]) {
    const line = parseLogLine(text);
    assert.ok(line !== undefined);
    logEnvoyLine(log, line);
  }
  assert.deepEqual(
    lines.map((line) => line.slice(0, 5)),
    ['debug', 'warn '],
  );
});
