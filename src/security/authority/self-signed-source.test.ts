import assert from 'node:assert/strict';
import { randomBytes, X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import * as fc from '../../core/testing/properties.ts';
import type { AuthorityStore } from '../types.ts';
import type { RootSet, RootSource, SigningMaterial } from './root-source.ts';
import { createRoot } from './self-signed-root.ts';
import { openSelfSigned } from './self-signed-source.ts';
import { createSigner } from './signer.ts';
import { csr, ecKey, type FakeClock, fakeClock, memoryStore } from './testing/fixtures.ts';

const HOUR = 3_600_000;
const CSR = csr({ key: ecKey('P-256') });

/** Successive instances of one authority on one store. */
function authority(options: { store?: AuthorityStore; lifeMs?: number; grace?: number; intervalMs?: number } = {}) {
  const { lifeMs = 100 * HOUR, grace = 20, intervalMs = HOUR } = options;
  const store = options.store ?? memoryStore();
  let making = 0;
  const time: FakeClock = fakeClock(undefined, () => making > 0);
  const signer = createSigner(randomBytes);
  const problems: string[] = [];
  let source: RootSource | undefined;
  let path: readonly string[] = [];
  const use = (material: SigningMaterial): void => {
    path = material.path;
    const [certificate = ''] = path;
    signer.run({ adopt: { key: material.key, certificate, chainEnd: material.chainEnd }, jobs: [] });
  };
  const rotations: string[] = [];
  return {
    time,
    problems,
    rotations,
    store,
    async start(random = 0.5) {
      const opened = await openSelfSigned({
        store,
        // RSA keys of 512 bits are created quickly; they are for tests only.
        newRoot: async (now) => {
          making++;
          try {
            return await createRoot({
              trustDomain: 'cluster.local',
              rsaBits: 512,
              lifetimeSeconds: lifeMs / 1000,
              now,
              randomBytes,
            });
          } finally {
            making--;
          }
        },
        rotation: { intervalMs, gracePercentile: grace },
        jitter: true,
        clock: time.clock,
        random: () => random,
        events: {
          changed: (_roots: RootSet, material) => material && use(material),
          problem: (error) => void problems.push(String(error)),
        },
        log: () => {},
        rotated: (message) => void rotations.push(message),
      });
      source = opened.source;
      use(opened.material);
    },
    stop() {
      void source?.close();
      source = undefined;
    },
    running: () => source !== undefined,
    roots: () => (source as RootSource).roots(),
    source: () => source as RootSource,
    /** A leaf that is valid for an hour, and the certificate that signed it. */
    issue(): { leaf: X509Certificate; root: string } {
      const answer = signer.run({
        jobs: [
          {
            kind: 'workload',
            csr: CSR,
            uri: 'spiffe://d/ns/a/sa/b',
            lifetimeSeconds: HOUR / 1000,
            now: time.clock.now(),
          },
        ],
      });
      assert.ok(answer.kind === 'done');
      const [result] = answer.results;
      assert.ok(result?.kind === 'signed', JSON.stringify(result));
      return { leaf: new X509Certificate(result.certificate), root: path[0] ?? '' };
    },
  };
}

function holds(leaf: X509Certificate, bundle: readonly string[], now: number): boolean {
  return bundle.some((pem) => {
    const root = new X509Certificate(pem);
    return now < root.validToDate.getTime() && leaf.checkIssued(root) && leaf.verify(root.publicKey);
  });
}

test('a rotation announces the next root, then signs with it, and removes the old one when it expires', async () => {
  const it = authority();
  await it.start();
  const [first] = it.roots().bundle;
  await it.time.advance(79 * HOUR);
  assert.deepEqual(it.roots().bundle, [first], 'nothing is due');
  await it.time.advance(1.5 * HOUR);
  const [signing, next, ...more] = it.roots().bundle;
  assert.deepEqual([signing, more.length], [first, 0]);
  assert.ok(next);
  assert.equal(it.issue().root, first, 'the old one signs while the new one spreads');
  await it.time.advance(HOUR);
  assert.deepEqual(it.roots().bundle, [next, first]);
  assert.equal(it.issue().root, next);
  assert.deepEqual(it.rotations, [
    'announced the next root certificate',
    'the next root certificate now signs certificates',
  ]);
  assert.deepEqual(it.roots().path, [next]);
  assert.notEqual(
    new X509Certificate(next).publicKey.equals(new X509Certificate(first ?? '').publicKey),
    true,
    'a new key',
  );
  await it.time.advance(20 * HOUR);
  assert.deepEqual(it.roots().bundle, [next]);
  assert.deepEqual(it.problems, []);
});

test('the roots survive a restart in each phase', async () => {
  const it = authority();
  await it.start();
  const begun = it.time.clock.now();
  for (const [at, count] of [
    [0, 1],
    [81, 2],
    [83, 2],
    [102, 1],
  ] as const) {
    await it.time.advance(begun + at * HOUR - it.time.clock.now());
    assert.equal(it.roots().bundle.length, count);
    const before = it.roots();
    it.stop();
    await it.start();
    assert.deepEqual(it.roots(), before, `at ${at} h`);
  }
});

test('a root that expired while the program was down is replaced before anything is signed', async () => {
  const it = authority();
  await it.start();
  const [first] = it.roots().bundle;
  it.stop();
  await it.time.advance(101 * HOUR);
  await it.start();
  const { bundle } = it.roots();
  assert.equal(bundle.length, 1);
  assert.notEqual(bundle[0], first);
  assert.ok(holds(it.issue().leaf, bundle, it.time.clock.now()));
});

test('a root that expired with the next one announced is replaced by that one', async () => {
  const it = authority();
  await it.start();
  await it.time.advance(80.6 * HOUR);
  const [, next] = it.roots().bundle;
  it.stop();
  await it.time.advance(30 * HOUR);
  await it.start();
  assert.deepEqual(it.roots().bundle, [next]);
});

test('without rotation, an expired root is an error and not replaced', async () => {
  const it = authority({ intervalMs: 0 });
  await it.start();
  const before = it.roots();
  await it.time.advance(99 * HOUR);
  assert.deepEqual(it.roots(), before);
  it.stop();
  await it.time.advance(2 * HOUR);
  await assert.rejects(it.start(), /expired, and its rotation is switched off/);
});

test('when the store fails the roots stay in force, and the step is repeated when it works again', async () => {
  const store = memoryStore();
  const it = authority({ store });
  await it.start();
  const before = it.roots();
  store.failure = new Error('disk full');
  await it.time.advance(81.6 * HOUR);
  assert.deepEqual(it.roots(), before);
  assert.match(it.problems[0] ?? '', /disk full/);
  delete store.failure;
  await it.time.advance(HOUR);
  assert.equal(it.roots().bundle.length, 2);
});

test('a state that vanishes at run time is an error, and the roots stay in force', async () => {
  const store = memoryStore();
  const it = authority({ store });
  await it.start();
  store.state = undefined;
  await it.time.advance(85 * HOUR);
  assert.equal(it.roots().bundle.length, 1);
  assert.match(it.problems[0] ?? '', /state was deleted/);
});

type Step =
  | { readonly kind: 'wait' | 'down'; readonly hours: number }
  | { readonly kind: 'poll'; readonly agent: number };

const STEPS = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant('wait' as const),
        hours: fc.integer({ min: 1, max: 6 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('down' as const), hours: fc.integer({ min: 0, max: 1 }) }),
    },
    { weight: 8, arbitrary: fc.record({ kind: fc.constant('poll' as const), agent: fc.nat(2) }) },
  ),
  { minLength: 20, maxLength: 30, size: 'max' },
);

test('a leaf is valid for every agent that polled within the last interval, with or without restarts', async () => {
  await fc.assert(
    fc.asyncProperty(STEPS, fc.double({ min: 0, max: 0.99, noNaN: true }), async (steps: readonly Step[], random) => {
      // The grace period is 8 hours of 20: the program's downtime is shorter than that.
      const it = authority({ lifeMs: 20 * HOUR, grace: 40 });
      await it.start(random);
      const agents = [0, 1, 2].map(() => ({ at: it.time.clock.now(), bundle: it.roots().bundle }));
      const held: X509Certificate[] = [];
      const look = (): void => {
        const now = it.time.clock.now();
        const { leaf } = it.issue();
        // An agent that polled just before an announcement polls again just when the root is switched.
        for (const { at, bundle } of agents) if (now - at < HOUR) assert.ok(holds(leaf, bundle, now), 'a fresh leaf');
        held.push(leaf);
        for (const each of held)
          if (now < each.validToDate.getTime()) assert.ok(holds(each, it.roots().bundle, now), 'a leaf that is held');
      };
      for (const step of steps) {
        if (step.kind === 'poll') agents[step.agent] = { at: it.time.clock.now(), bundle: it.roots().bundle };
        else if (step.kind === 'down') {
          it.stop();
          await it.time.advance(step.hours * HOUR);
          await it.start(random);
        } else {
          // Checked in short steps, with one agent that never misses an interval.
          for (let left = step.hours; left > 0; left -= 0.45) {
            await it.time.advance(Math.min(left, 0.45) * HOUR);
            look();
            agents[0] = { at: it.time.clock.now(), bundle: it.roots().bundle };
          }
        }
        look();
      }
      it.stop();
      assert.deepEqual(it.problems, []);
    }),
    // No shrinking: it would take minutes, and there are few steps.
    { numRuns: 10, endOnFailure: true },
  );
});
