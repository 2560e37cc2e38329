/**
 * Loaded before each test file: reports the CPU time of its process and of the programs that it started, and ends its
 * process some time after its last test. A test that fails may leave a server open, with which the process, and so the
 * whole run, would never end.
 */
import { readFileSync, writeSync } from 'node:fs';
import { after, afterEach, beforeEach } from 'node:test';
import { isMainThread } from 'node:worker_threads';

/** Until then everything is reported, and hooks that clean up have run, also on a busy machine, ms. */
const GRACE_MS = 120_000;

/** What is written to standard error when the process exits: CPU time in hundredths of a second. */
export const CPU_LINE = /^CPU time of the test file: (\d+)0 ms$/;

/**
 * CPU time of this process and of the ended programs that it waited for, in hundredths of a second: user and system
 * time of both, fields 14 to 17 of /proc/self/stat (proc(5)).
 */
function usedCpu(): number {
  const text = readFileSync('/proc/self/stat', 'utf8');
  // The second field is a name in parentheses, which can contain spaces.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
}

/**
 * The hook after all tests runs as soon as all tests that are known have ended: also when the next file that shares the
 * process is still being loaded. The time therefore counts from the last test on.
 */
function endAfterLastTest(graceMs: number): void {
  const end = (): void => {
    process.stderr.write(`ended with open handles: ${process.getActiveResourcesInfo().join(' ')}\n`);
    process.exit(1);
  };
  // Tests may replace these functions.
  const [start, cancel] = [setTimeout, clearTimeout];
  let timer: NodeJS.Timeout | undefined;
  let running = 0;
  let ended = false;
  const decide = (): void => {
    cancel(timer);
    if (ended && running === 0) timer = start(end, graceMs).unref();
  };
  beforeEach(() => {
    running++;
    decide();
  });
  afterEach(() => {
    running--;
    decide();
  });
  after(() => {
    ended = true;
    decide();
  });
}

// Workers and forked processes of tests get the same options of Node.js.
if (isMainThread && process.argv[1]?.endsWith('.test.ts') === true) {
  process.once('exit', () => writeSync(process.stderr.fd, `CPU time of the test file: ${usedCpu()}0 ms\n`));
  endAfterLastTest(Number(process.env.TEST_GRACE_MS ?? GRACE_MS));
}
