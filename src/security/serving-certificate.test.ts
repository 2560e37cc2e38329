import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CtlError } from '../core/errors.ts';
import { fakeTime } from '../core/testing/fake-time.ts';
import { CLOCK_CHECK_MS } from '../core/wall-clock.ts';
import { type FakeClock, fakeClock } from './authority/testing/fixtures.ts';
import { followServingCertificate } from './serving-certificate.ts';
import { NOW } from './testing/credentials.ts';

const HOUR = 3_600_000;

/** An authority that numbers its certificates. */
async function serving({ clock, advance }: Pick<FakeClock, 'clock' | 'advance'> = fakeClock()) {
  const given: string[] = [];
  const problems: string[] = [];
  let made = 0;
  let failure: Error | undefined;
  let changed = (): void => {};
  const follow = () =>
    followServingCertificate({
      authority: {
        serverCertificate: async (names, lifetimeSeconds) => {
          if (failure !== undefined) throw failure;
          return { chain: `${names.join()} ${++made}`, key: '', expiresAt: clock.now() + lifetimeSeconds * 1000 };
        },
        onChange: (listener) => {
          changed = listener;
          return () => (changed = () => {});
        },
      },
      dnsNames: ['meshd.mesh-system.svc'],
      lifetimeSeconds: (24 * HOUR) / 1000,
      clock,
      random: () => 0.5,
      onCertificate: ({ chain }) => given.push(chain),
      onProblem: (error) => problems.push(error.message),
    });
  return { advance, given, problems, follow, change: () => changed(), fail: (error?: Error) => (failure = error) };
}

describe('the certificate of the secure gRPC address', () => {
  it('is renewed before it expires, and when the authority’s root changes', async () => {
    const { advance, given, follow, change } = await serving();
    const { first, close } = await follow();
    assert.equal(first.chain, 'meshd.mesh-system.svc 1');
    assert.equal(first.expiresAt, NOW + 24 * HOUR);
    await advance(11 * HOUR);
    assert.deepEqual(given, []);
    await advance(2 * HOUR);
    assert.deepEqual(given, ['meshd.mesh-system.svc 2']);
    change();
    await advance(0);
    assert.deepEqual(given.length, 2);
    // Renewed at that time: the earlier timer was canceled.
    await advance(11.5 * HOUR);
    assert.deepEqual(given.length, 2);
    close();
    change();
    await advance(48 * HOUR);
    assert.deepEqual(given.length, 2);
  });

  it('is retried until it succeeds, and the last one stays in use', async () => {
    const { advance, given, problems, follow, fail } = await serving();
    const { close } = await follow();
    fail(new CtlError('unavailable', 'not now'));
    await advance(12 * HOUR + 10_000);
    assert.ok(problems.length >= 3 && problems.length < 10, String(problems.length));
    fail();
    await advance(60_000);
    assert.equal(given.length, 1);
    close();
  });

  it('is required at startup', async () => {
    const { follow, fail } = await serving();
    fail(new CtlError('invalid_argument', 'no name'));
    await assert.rejects(follow(), /no name/);
  });

  for (const [what, hours] of [
    ['forward past the end of the certificate', 25],
    ['back to before the certificate begins', -3],
  ] as const) {
    it(`is renewed within a minute after the clock was set ${what}`, async () => {
      const { clock, pass, set } = fakeTime(NOW);
      const advance = async (ms: number): Promise<void> => {
        pass(ms);
        await new Promise<void>((resolve) => setImmediate(resolve));
      };
      const { given, follow } = await serving({ clock, advance });
      const { close } = await follow();
      await advance(HOUR);
      set(hours * HOUR);
      assert.deepEqual(given, []);
      await advance(CLOCK_CHECK_MS);
      assert.equal(given.length, 1);
      close();
    });
  }
});
