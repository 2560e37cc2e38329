/** The program in this process, with the Mock registry, on free ports of loopback. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { tempDir } from '../../test/harness/files.ts';
import { type Closer, Closers } from '../core/process/closers.ts';
import { waitUntil } from '../core/testing/wait-until.ts';
import { type DiscoverySettings, defaultDiscoverySettings } from '../settings/index.ts';
import { startProgram } from './program.ts';

const ANY = '127.0.0.1:0';

/** Stops the program when so many of its parts have been started. */
class StoppingClosers extends Closers {
  readonly #after: number;
  #count = 0;
  /** Numbers of the parts that were ended, in order. */
  readonly ended: number[] = [];
  readonly failed: string[];
  stopped: Promise<void> = Promise.resolve();

  constructor(after: number) {
    const failed: string[] = [];
    super({ error: (line) => void failed.push(line) });
    this.failed = failed;
    this.#after = after;
  }

  get count(): number {
    return this.#count;
  }

  override add(closer: Closer): void {
    const part = ++this.#count;
    super.add(() => {
      this.ended.push(part);
      return closer();
    });
    if (part === this.#after) this.stopped = this.close();
  }
}

async function settingsOf(context: TestContext): Promise<DiscoverySettings> {
  const folder = await tempDir(context);
  return defaultDiscoverySettings({
    registries: ['Mock'],
    grpcAddr: ANY,
    secureGRPCAddr: ANY,
    httpAddr: ANY,
    httpsAddr: ANY,
    monitoringAddr: ANY,
    introspectPort: 0,
    meshConfig: join(folder, 'mesh'),
    networksConfig: join(folder, 'networks'),
    selfSignedCaDir: join(folder, 'ca'),
    stateDir: join(folder, 'state'),
    generateWorkers: 0,
    terminationDrainDurationSeconds: 0,
  });
}

const listeners = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length;

test('a program that is stopped after any step of its start ends each part once, the last one first', async (context) => {
  const settings = await settingsOf(context);
  const before = listeners();
  for (let after = 1; ; after++) {
    const closers = new StoppingClosers(after);
    const outcome = await startProgram(settings, {}, closers).then(
      () => 'started',
      (error: unknown) => String(error),
    );
    await closers.stopped;
    const parts = Array.from({ length: closers.count }, (_, index) => index + 1);
    if (closers.count < after) {
      assert.equal(outcome, 'started');
      assert.ok(listeners() > before);
      await closers.close();
      assert.deepEqual(closers.ended, parts.reverse());
      break;
    }
    if (closers.count > after) assert.match(outcome, /the program is being stopped/);
    assert.deepEqual(closers.ended.toSorted(), parts.toSorted(), `after ${after}`);
    // The others came while the first were ended.
    assert.deepEqual(
      closers.ended.filter((part) => part <= after),
      parts.slice(0, after).reverse(),
    );
    assert.deepEqual(closers.failed, []);
  }
  await waitUntil(() => listeners() === before, { what: () => `${before} listeners, not ${listeners()}` });
});

test('a program whose last address is taken ends what it has started', async (context) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  context.after(() => taken.close());
  const address = taken.address();
  assert.ok(address !== null && typeof address !== 'string');
  const before = listeners();
  const closers = new Closers({ error: assert.fail });
  const grpcAddr = `127.0.0.1:${address.port}`;
  const starting = startProgram({ ...(await settingsOf(context)), grpcAddr }, {}, closers);
  await assert.rejects(starting, { name: 'CtlError', message: /cannot listen/ });
  await closers.close();
  await waitUntil(() => listeners() === before, { what: () => `${before} listeners, not ${listeners()}` });
});
