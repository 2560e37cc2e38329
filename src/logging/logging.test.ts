import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import {
  closeLogging,
  configureLogging,
  getScope,
  type LoggingOptions,
  scopeSettings,
  setCaller,
  setLevel,
  setStackLevel,
} from './logging.ts';

const folder = mkdtempSync(join(tmpdir(), 'meshd-log-'));
after(() => rmSync(folder, { recursive: true }));

let turn = 0;
let path = '';
beforeEach(() => {
  turn += 1;
  path = join(folder, `${turn}.log`);
});
afterEach(closeLogging);

const clock = () => Date.UTC(2026, 0, 1);
const TIME = '2026-01-01T00:00:00.000000Z';

function configure(options: Partial<LoggingOptions> = {}) {
  const none: LoggingOptions = {
    json: false,
    callerScopes: new Set(),
    outputLevels: new Map(),
    stackLevels: new Map(),
    targets: [path],
  };
  configureLogging({ ...none, ...options }, clock);
}

function logged(): string {
  closeLogging();
  return readFileSync(path, 'utf8');
}

function logAllLevels(scope: Parameters<typeof getScope>[0]) {
  const log = getScope(scope);
  log.debug('d');
  log.info('i');
  log.warn('w');
  log.error('e');
  log.fatal('f');
}

test('scopes that are not named have level info', () => {
  configure();
  logAllLevels('ads');
  assert.equal(
    logged(),
    ['info\tads\ti', 'warn\tads\tw', 'error\tads\te', 'fatal\tads\tf'].map((rest) => `${TIME}\t${rest}\n`).join(''),
  );
});

test('a scope writes messages of its level and above; with none it writes nothing', () => {
  configure({
    outputLevels: new Map([
      ['ads', 'debug'],
      ['model', 'error'],
      ['orch', 'none'],
    ]),
  });
  for (const scope of ['ads', 'model', 'orch'] as const) logAllLevels(scope);
  const lines = logged().trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => line.split('\t').slice(1).join(' ')),
    ['debug ads d', 'info ads i', 'warn ads w', 'error ads e', 'fatal ads f', 'error model e', 'fatal model f'],
  );
});

test('a level that changes later applies to an existing logger', () => {
  const log = getScope('status');
  assert.equal(getScope('status'), log);
  configure();
  assert.equal(log.enabled('debug'), false);
  setLevel('status', 'debug');
  assert.equal(log.enabled('debug'), true);
  log.debug('now');
  setLevel('status', 'error');
  log.warn('no more');
  assert.equal(logged(), `${TIME}\tdebug\tstatus\tnow\n`);
});

test('records have caller information in the configured scopes only', () => {
  configure({ callerScopes: new Set(['ads']) });
  getScope('ads').info('here');
  getScope('model').info('not here');
  assert.match(logged(), /\tads\tlogging\/logging\.test\.ts:\d+\there\n.*\tmodel\tnot here\n$/);
});

test('records have a stack trace from the configured level on, which begins at the caller', () => {
  configure({ stackLevels: new Map([['ads', 'error']]) });
  getScope('ads').warn('plain');
  getScope('ads').error('traced');
  assert.match(logged(), /^\S+\twarn\tads\tplain\n\S+\terror\tads\ttraced\n\s+at .*logging\.test\.ts/);
});

test('settings of a scope are shown and changed one by one', () => {
  configure({ outputLevels: new Map([['ads', 'warn']]), stackLevels: new Map([['ads', 'fatal']]) });
  assert.deepEqual(scopeSettings('ads'), { name: 'ads', outputLevel: 'warn', stackLevel: 'fatal', caller: false });
  setStackLevel('ads', 'none');
  setCaller('ads', true);
  assert.deepEqual(scopeSettings('ads'), { name: 'ads', outputLevel: 'warn', stackLevel: 'none', caller: true });
});

describe('targets', () => {
  test('every target gets each line once, also one named twice, and the rotating file', () => {
    const other = `${path}.other`;
    const rotated = `${path}.rotated`;
    const rotate = { path: rotated, maxBytes: 0, maxAgeMs: 0, maxBackups: 0 };
    configure({ targets: [path, other, path], rotate });
    getScope('default').info('hello', { n: 1 });
    const text = logged();
    assert.equal(text, `${TIME}\tinfo\tdefault\thello\tn=1\n`);
    assert.equal(readFileSync(other, 'utf8'), text);
    assert.equal(readFileSync(rotated, 'utf8'), text);
  });

  test('the previous targets stay when one cannot be opened', () => {
    configure();
    assert.throws(() => configure({ targets: ['/nosuchdir/log'] }), /ENOENT/);
    getScope('default').info('still here');
    assert.match(logged(), /still here/);
  });

  test('each line is an object with JSON', () => {
    configure({ json: true });
    getScope('ads').info('hello', { n: 1 });
    assert.deepEqual(JSON.parse(logged()), { n: 1, time: TIME, level: 'info', scope: 'ads', msg: 'hello' });
  });
});

describe('a program that exits', () => {
  const run = (end: string) =>
    spawnSync(process.execPath, [
      '--input-type=module',
      '-e',
      `import { configureLogging, getScope } from ${JSON.stringify(new URL('./logging.ts', import.meta.url).href)};
       configureLogging({ json: false, callerScopes: new Set(), outputLevels: new Map(), stackLevels: new Map(),
         targets: ['stdout'] });
       getScope('ads').info('last words');
       ${end}`,
    ]);

  for (const [how, end, code] of [
    ['by process.exit', 'process.exit(3)', 3],
    ['by an uncaught error', 'throw new Error("boom")', 1],
    ['by having nothing to do', '', 0],
  ] as const) {
    test(`${how} has written all records`, () => {
      const { status, stdout } = run(end);
      assert.equal(status, code);
      assert.match(stdout.toString(), /^\S+\tinfo\tads\tlast words\n$/);
    });
  }
});
