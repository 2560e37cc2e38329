/**
 * Loaded before each test file: ends its process some time after its last test. A test that fails may leave a server
 * open, with which the process, and so the whole run, would never end.
 */
import { after } from 'node:test';
import { isMainThread } from 'node:worker_threads';

/** Until then everything is reported, and hooks that clean up have run, also on a busy machine, ms. */
const GRACE_MS = 120_000;

// Workers and forked processes of tests get the same options of Node.js.
if (isMainThread && process.argv[1]?.endsWith('.test.ts') === true)
  after(() => {
    const end = (): void => {
      process.stderr.write(`ended with open handles: ${process.getActiveResourcesInfo().join(' ')}\n`);
      process.exit(1);
    };
    setTimeout(end, Number(process.env.TEST_GRACE_MS ?? GRACE_MS)).unref();
  });
