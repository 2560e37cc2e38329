import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { fakeTime } from '../../core/testing/fake-time.ts';
import * as fc from '../../core/testing/properties.ts';
import type { WorkloadSecrets } from '../types.ts';
import type { KeyAndRequest } from './csr.ts';
import { newCounters } from './metrics.ts';
import { createRotation, MAX_BACKOFF_MS, retryDelay, rotationTime } from './rotation.ts';
import { testRoot } from './testing/certificates.ts';
import { logLines } from './testing/log-lines.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const URI = 'spiffe://cluster.local/ns/default/sa/web';

const unavailable = (): never => {
  throw new CtlError('unavailable', 'connection refused');
};

type MovedClock = Omit<FakeClock, 'pass' | 'hang'>;

interface SetUp {
  readonly lifeMs?: number;
  readonly random?: () => number;
  readonly graceRatio?: number;
  readonly announced?: { readonly namespace: string; readonly serviceAccount: string | undefined };
  readonly clock?: MovedClock;
}

/** A rotation with a fake authority and a fake clock. */
function setUp(options: SetUp = {}) {
  // Certificates have whole seconds.
  const clock = options.clock ?? fakeClock({ start: Math.floor(Date.now() / SECOND) * SECOND });
  const log = logLines();
  const counters = newCounters();
  const keys: KeyAndRequest[] = [];
  const signedAt: number[] = [];
  const changes: WorkloadSecrets[] = [];
  const state = {
    uri: URI,
    root: testRoot('one'),
    bundle: undefined as string | undefined,
    fail: (): void => undefined,
  };
  const start = clock.now();
  const pairs = new Map<string, ReturnType<typeof generateKeyPairSync>>();
  const source = createRotation({
    ca: {
      sign(csr) {
        signedAt.push(clock.now() - start);
        return new Promise((resolve) => {
          state.fail();
          const pair = pairs.get(csr);
          if (pair === undefined) throw new Error('an unknown request');
          const leaf = state.root.issue(pair.publicKey, [state.uri], options.lifeMs ?? 24 * HOUR, clock.now());
          resolve({ chain: [leaf, state.root.pem], roots: state.bundle });
        });
      },
      trustBundle: () =>
        new Promise((resolve) => {
          state.fail();
          resolve(state.bundle);
        }),
      close: () => undefined,
    },
    newKey() {
      const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const made = {
        key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
        csr: `csr ${keys.length}`,
      };
      keys.push(made);
      pairs.set(made.csr, pair);
      return Promise.resolve(made);
    },
    ...(options.announced === undefined ? {} : { announced: options.announced }),
    lifetimeSeconds: (24 * HOUR) / 1000,
    graceRatio: options.graceRatio ?? 0.5,
    checkIntervalMs: 5 * MINUTE,
    initialBackoffMs: 0,
    clock,
    random: options.random ?? (() => 0.5),
    counters,
    log,
  });
  source.onChange((secrets) => changes.push(secrets));
  return { clock, log, counters, keys, signedAt, changes, state, source };
}

test('a certificate is replaced, with a new key, when half of its life is left', async () => {
  const { clock, source, changes, signedAt, keys } = setUp();
  source.start();
  await clock.advance(25 * HOUR);
  assert.deepEqual(
    signedAt.map((at) => Math.round(at / HOUR)),
    [0, 12, 24],
  );
  assert.equal(changes.length, 3);
  assert.equal(new Set(changes.map(({ certificate }) => certificate.key)).size, 3);
  assert.deepEqual(
    changes.map(({ certificate }) => certificate.key),
    keys.map(({ key }) => key),
  );
  await source.close();
  assert.deepEqual(clock.pending(), []);
});

for (const [what, hours] of [
  ['forward past its end', 25],
  ['back to before it begins', -3],
] as const)
  test(`a certificate is replaced at the next check after the clock was set ${what}`, async () => {
    const { clock: timers, pass, set, waiting } = fakeTime();
    const clock: MovedClock = {
      ...timers,
      async advance(ms) {
        pass(ms);
        for (let round = 0; round < 3; round++) await new Promise((resolve) => setImmediate(resolve));
      },
      pending: () => Array.from({ length: waiting() }, () => 0),
    };
    const { source, changes } = setUp({ clock });
    source.start();
    await clock.advance(0);
    await clock.advance(4 * MINUTE);
    assert.equal(changes.length, 1);
    set(hours * HOUR);
    await clock.advance(5 * MINUTE);
    assert.equal(changes.length, 2);
    await source.close();
  });

test('workloads that start together do not renew together, and never after the certificate has expired', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2 * SECOND, max: 1000 * HOUR }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (life, ratio, random) => {
        const at = rotationTime(0, life, ratio, () => random);
        assert.ok(at > 0 && at <= life, `${at} of ${life}`);
        const grace = life - at;
        assert.ok(grace <= life * ratio * 1.1 + 1e-6);
        if (ratio <= 0.8 && life > 10 * SECOND) assert.ok(grace >= life * ratio * 0.9 - 1e-6);
      },
    ),
  );
  assert.ok(rotationTime(0, HOUR, 0.5, () => 0.9) < rotationTime(0, HOUR, 0.5, () => 0.1));
});

test('an unreachable authority is retried with growing delays, and reported once', async () => {
  const { clock, source, log, state, counters, signedAt } = setUp();
  state.fail = unavailable;
  source.start();
  await clock.advance(10 * SECOND);
  // 500 ms, doubled each time, three quarters of it in the middle of the jitter.
  assert.deepEqual(signedAt, [0, 375, 1125, 2625, 5625]);
  assert.equal(source.current(), undefined);
  assert.equal(counters.num_outgoing_retries, 4);
  await clock.advance(HOUR);
  assert.deepEqual(
    log.lines.filter((line) => line.startsWith('warn')),
    ['warn no new certificate: connection refused'],
  );
  state.fail = () => undefined;
  await clock.advance(MAX_BACKOFF_MS);
  assert.notEqual(source.current(), undefined);
  assert.ok(log.lines.includes('info certificates can be issued again'));
  await source.close();
});

test('retries go on until and beyond expiry; the old certificate stays', async () => {
  const { clock, source, log, state, changes } = setUp({ lifeMs: 10 * MINUTE });
  source.start();
  await clock.advance(MINUTE);
  state.fail = unavailable;
  const before = source.current();
  await clock.advance(8 * MINUTE);
  assert.equal(log.lines.filter((line) => line.startsWith('error')).length, 0);
  await clock.advance(30 * MINUTE);
  assert.equal(source.current(), before);
  assert.deepEqual(
    log.lines.filter((line) => line.startsWith('error')),
    ['error the certificate has expired'],
  );
  state.fail = () => undefined;
  await clock.advance(MAX_BACKOFF_MS);
  assert.equal(changes.length, 2);
  assert.ok((source.current()?.certificate.expiresAt ?? 0) > clock.now());
  await source.close();
});

test('a certificate for another key is refused', async () => {
  const { clock, source, log, state, keys } = setUp();
  const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { issue } = state.root;
  state.root = { pem: state.root.pem, issue: (_, ...rest) => issue(stranger.publicKey, ...rest) };
  source.start();
  await clock.advance(SECOND);
  assert.equal(source.current(), undefined);
  assert.ok(keys.length > 1, 'each attempt has a key of its own');
  assert.ok(log.lines.includes('warn no new certificate: the key does not match the certificate'));
  await source.close();
});

test('new roots are used from the next check on, and without a bundle the root of the chain', async () => {
  const { clock, source, state, changes } = setUp();
  source.start();
  await clock.advance(SECOND);
  assert.equal(source.current()?.roots, state.root.pem);
  const both = state.root.pem + testRoot('two').pem;
  state.bundle = both;
  await clock.advance(5 * MINUTE);
  assert.equal(source.current()?.roots, both);
  assert.equal(changes.length, 2);
  assert.equal(changes[0]?.certificate, changes[1]?.certificate);
  await clock.advance(HOUR);
  assert.equal(changes.length, 2, 'unchanged secrets cause no event');
  await source.close();
});

test('a listener that throws does not affect the others', async () => {
  const { clock, source, log, changes } = setUp();
  source.onChange(() => {
    throw new Error('broken');
  });
  let calls = 0;
  source.onChange(() => {
    calls++;
  });
  source.start();
  await clock.advance(SECOND);
  assert.deepEqual([calls, changes.length], [1, 1]);
  assert.ok(log.lines.includes('error new secrets were not applied: broken'));
  await source.close();
});

test('retry delays double up to a maximum, and stay within their jitter', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: -1, max: 100_000 }),
      fc.infiniteStream(fc.double({ min: 0, max: 0.999, noNaN: true })),
      (initial, randoms) => {
        const random = (): number => Number(randoms.next().value);
        let step = Math.min(initial > 0 ? initial : 500, MAX_BACKOFF_MS);
        for (let failures = 1; failures <= 12; failures++) {
          const delay = retryDelay(failures, initial, random);
          assert.ok(delay >= step / 2 && delay <= step);
          step = Math.min(step * 2, MAX_BACKOFF_MS);
        }
      },
    ),
  );
});

test('a certificate of another identity is refused, and requested again until it is the right one', async () => {
  const { clock, source, changes, log, state } = setUp({ announced: { namespace: 'default', serviceAccount: 'web' } });
  state.uri = 'spiffe://cluster.local/ns/default/sa/other';
  source.start();
  await clock.advance(10 * SECOND);
  assert.deepEqual([changes.length, source.current()], [0, undefined]);
  assert.match(
    log.lines.join('\n'),
    /^warn no new certificate: the authority knows this workload as \S+other, but it is [^\n]+$/,
  );
  state.uri = URI;
  await clock.advance(10 * MINUTE);
  assert.equal(changes.length, 1);
  await source.close();
});

test('without a configured account any certified account of the namespace is accepted', async () => {
  for (const [namespace, taken] of [
    ['default', 1],
    ['elsewhere', 0],
  ] as const) {
    const { clock, source, changes } = setUp({ announced: { namespace, serviceAccount: undefined } });
    source.start();
    await clock.advance(SECOND);
    assert.equal(changes.length, taken);
    await source.close();
  }
});
