/**
 * Certificates per second that the authority signs, and per second of CPU: all of what a request costs behind the gRPC
 * server, on the main thread and in one signing worker. Goals: 2,000 for RSA keys, 4,000 for P-256, on a machine whose
 * OpenSSL can: RSA signatures depend on the CPU's generation (three times as many with AVX-512 IFMA), so the table has
 * the figures of OpenSSL alone, too.
 */
import { createPrivateKey, randomBytes, sign as signature, verify } from 'node:crypto';
import { createRoot } from '../../src/security/authority/self-signed-root.ts';
import { csr, ecKey, type KeyPair, makeCa, rsaKey, spki } from '../../src/security/authority/testing/fixtures.ts';
import { createAuthority } from '../../src/security/index.ts';
import type { Authority } from '../../src/security/types.ts';
import { defaultDiscoverySettings } from '../../src/settings/index.ts';
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
    while (left-- > 0) await authority.sign({ csr: request, identity, lifetimeSeconds: 0 });
  };
  const [started, cpu] = [monotonicMs(), process.cpuUsage()];
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
  const seconds = (monotonicMs() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { perSecond: CERTIFICATES / seconds, perCpuSecond: CERTIFICATES / ((user + system) / 1e6) };
}

async function measure(authority: Authority, key: KeyPair, rounds: number): Promise<Rate> {
  const request = csr({ key });
  // The first round does not count: its code is being compiled.
  await round(authority, request);
  const rates: Rate[] = [];
  for (let count = 0; count < rounds; count++) rates.push(await round(authority, request));
  return {
    perSecond: median(rates.map(({ perSecond }) => perSecond)),
    perCpuSecond: median(rates.map(({ perCpuSecond }) => perCpuSecond)),
  };
}

/**
 * The limit of the machine, per second of CPU: one signature by the authority's key and one verification of the
 * request's signature.
 */
function bound(authorityKey: string, key: KeyPair): number {
  const signer = createPrivateKey(authorityKey);
  const [data, publicKey] = [randomBytes(500), spki(key.publicKey)];
  const proof = signature('sha256', data, key.privateKey);
  const cpu = process.cpuUsage();
  for (let count = 0; count < CERTIFICATES; count++) {
    signature('sha256', data, signer);
    verify('sha256', data, { key: publicKey, format: 'der', type: 'spki' }, proof);
  }
  const { user, system } = process.cpuUsage(cpu);
  return CERTIFICATES / ((user + system) / 1e6);
}

export const sign: Bench = {
  name: 'sign',
  about: 'certificates that the authority signs, per second and per second of CPU',
  async run({ options, progress }) {
    const now = Date.now();
    const root = { trustDomain: 'cluster.local', rsaBits: 2048, lifetimeSeconds: YEAR_MS / 1000, now, randomBytes };
    const [rsa, p256] = [rsaKey(2048), ecKey('P-256')];
    const rsaRoot = await createRoot(root);
    const p256Root = makeCa({ name: 'bench', notBefore: now, notAfter: now + YEAR_MS });
    const [rsaCa, p256Ca] = [await authorityOf(rsaRoot), await authorityOf(p256Root)];
    try {
      const rows: (string | number)[][] = [];
      for (const [requested, key, ca, authority, authorityKey] of [
        ['RSA-2048', rsa, 'RSA-2048', rsaCa, rsaRoot.key],
        ['P-256', p256, 'RSA-2048', rsaCa, rsaRoot.key],
        ['P-256', p256, 'P-256', p256Ca, p256Root.key],
      ] as const) {
        progress(`${requested} keys, ${ca} authority`);
        const { perSecond, perCpuSecond } = await measure(authority, key, options.rounds);
        const most = bound(authorityKey, key);
        rows.push([requested, ca, ...[perSecond, perCpuSecond, most].map(Math.round)]);
      }
      const columns = ['key', 'authority', 'per second', 'per CPU second', 'OpenSSL alone per CPU second'];
      return { rows: [], tables: [{ title: 'Certificates signed, one signing worker', columns, rows }] };
    } finally {
      await Promise.all([rsaCa.close(), p256Ca.close()]);
    }
  },
};
