/**
 * Certificates per second that the authority signs, and per second of CPU: all of what a request costs behind the gRPC server, on the
 * main thread and in one signing worker. Goals: 2,000 for RSA keys, 4,000 for P-256.
 */
import { randomBytes } from 'node:crypto';
import { defaultDiscoverySettings } from '../../src/cli/index.ts';
import { createRoot } from '../../src/security/authority/self-signed-root.ts';
import { csr, ecKey, type KeyPair, makeCa, rsaKey } from '../../src/security/authority/testing/fixtures.ts';
import { createAuthority } from '../../src/security/index.ts';
import type { Authority } from '../../src/security/types.ts';
import type { Bench } from '../mesh.ts';
import { median } from '../results.ts';
import { monotonicMs } from '../world/clock.ts';

/** Certificates of one round, and how many callers wait at a time. */
const CERTIFICATES = 1500;
const IN_FLIGHT = 256;
const YEAR_MS = 365 * 24 * 3_600_000;

async function authorityOf(root: { readonly key: string; readonly certificate: string }): Promise<Authority> {
  return createAuthority({
    settings: defaultDiscoverySettings({ rootCaDir: '/nonexistent', rootCheckIntervalMs: 0 }),
    trustDomain: 'cluster.local',
    log: { info: () => {}, error: () => {} },
    store: { load: async () => ({ ...root, former: [] }), save: async () => {} },
    threads: 1,
  });
}

interface Rate {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

async function round(authority: Authority, request: string): Promise<Rate> {
  const identity = { trustDomain: 'cluster.local', namespace: 'shop', serviceAccount: 'cart' };
  let left = CERTIFICATES;
  const caller = async (): Promise<void> => {
    while (left-- > 0) await authority.sign({ csr: request, identity, ttlMs: 0 });
  };
  const [started, cpu] = [monotonicMs(), process.cpuUsage()];
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
  const seconds = (monotonicMs() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: CERTIFICATES / seconds, perCpuSecond: CERTIFICATES / ((user + system) / 1e6) };
}

async function measure(authority: Authority, key: KeyPair, rounds: number): Promise<Rate> {
  const request = csr({ key });
  // The first round is thrown away: the compiler needs it.
  await round(authority, request);
  const rates: Rate[] = [];
  for (let count = 0; count < rounds; count++) rates.push(await round(authority, request));
  return {
    perSecond: median(rates.map(({ perSecond }) => perSecond)),
    perCpuSecond: median(rates.map(({ perCpuSecond }) => perCpuSecond)),
  };
}

export const sign: Bench = {
  name: 'sign',
  about: 'certificates that the authority signs, per second and per second of CPU',
  async run({ options, progress }) {
    const now = Date.now();
    const root = { trustDomain: 'cluster.local', rsaBits: 2048, ttlMs: YEAR_MS, now, randomBytes };
    const [rsa, p256] = [rsaKey(2048), ecKey('P-256')];
    const rsaCa = await authorityOf(await createRoot(root));
    const p256Ca = await authorityOf(makeCa({ name: 'bench', notBefore: now, notAfter: now + YEAR_MS }));
    try {
      const rows: (string | number)[][] = [];
      for (const [requested, key, ca, authority] of [
        ['RSA-2048', rsa, 'RSA-2048', rsaCa],
        ['P-256', p256, 'RSA-2048', rsaCa],
        ['P-256', p256, 'P-256', p256Ca],
      ] as const) {
        progress(`${requested} keys, ${ca} authority`);
        const { perSecond, perCpuSecond } = await measure(authority, key, options.rounds);
        rows.push([requested, ca, Math.round(perSecond), Math.round(perCpuSecond)]);
      }
      const columns = ['key', 'authority', 'per second', 'per CPU second'];
      return { rows: [], tables: [{ title: 'Certificates signed, one signing worker', columns, rows }] };
    } finally {
      await Promise.all([rsaCa.close(), p256Ca.close()]);
    }
  },
};
