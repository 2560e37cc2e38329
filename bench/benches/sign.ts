/**
 * Certificates that ctl-discovery issues to agents that renew theirs, per second and per second of its CPU time: the
 * whole program with its signing threads, over TLS connections that authenticate the callers. Signatures with RSA
 * depend on the CPU's generation (three times as many with AVX-512 IFMA), so the table also has the figures of OpenSSL
 * alone.
 */
import { createPrivateKey, randomBytes, sign as signature, verify } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRoot } from '../../src/security/authority/self-signed-root.ts';
import { csr, ecKey, type KeyPair, makeCa, rsaKey, spki } from '../../src/security/authority/testing/fixtures.ts';
import { issueToken } from '../../src/security/index.ts';
import { certificate, channel, client } from '../../test/e2e/support/identity-calls.ts';
import { tempDir } from '../../test/harness/files.ts';
import { createScope, type Owner } from '../../test/harness/owner.ts';
import { type AskedProcess, startAsked } from '../client/child.ts';
import type { Bench, BenchContext } from '../mesh.ts';
import { cpuSeconds } from '../process-stats.ts';
import { median } from '../results.ts';
import { type Server, startServer } from '../server.ts';
import type { SignCommand, SignResult } from '../sign/messages.ts';

/** Certificates of one round for each service of the options: 2,000 by default. */
const CERTIFICATES_FACTOR = 2;
const IN_FLIGHT = 256;
const CONNECTIONS = 8;
const YEAR_MS = 365 * 24 * 3_600_000;

interface Root {
  readonly key: string;
  readonly certificate: string;
}

interface Authority {
  readonly server: Server;
  readonly load: AskedProcess<SignCommand, SignResult>;
  readonly caller: Pick<SignCommand, 'root' | 'chain' | 'key'>;
}

/** A server that signs with this root, and a caller with a certificate of it. */
async function start(owner: Owner, { program }: BenchContext, root: Root): Promise<Authority> {
  const [rootDir, issuer, configDir] = [
    await tempDir(owner),
    join(await tempDir(owner), 'issuer'),
    await tempDir(owner),
  ];
  await writeFile(join(rootDir, 'ca-key.pem'), root.key);
  for (const name of ['ca-cert.pem', 'root-cert.pem']) await writeFile(join(rootDir, name), root.certificate);
  const server = await startServer(owner, {
    program,
    configDir,
    env: {
      ENABLE_CA_SERVER: 'true',
      CTL_CERT_PROVIDER: 'meshd',
      ROOT_CA_DIR: rootDir,
      LOCAL_TOKEN_ISSUER_DIR: issuer,
    },
  });
  const token = await issueToken({
    directory: issuer,
    identity: { namespace: 'shop', serviceAccount: 'cart' },
    audience: 'mesh-ca',
    lifetimeSeconds: 60,
    now: Date.now(),
  });
  const keys = ecKey('P-256');
  const plain = client(owner, server.ports.secure, channel({ root: root.certificate }));
  const chain = (await certificate(plain, keys, token)).join('');
  const key = keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const load = startAsked<SignCommand, SignResult>(owner, join(import.meta.dirname, '../sign/load.ts'));
  return { server, load, caller: { root: root.certificate, chain, key } };
}

interface Rate {
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

async function round({ server, load, caller }: Authority, request: string, certificates: number): Promise<Rate> {
  const cpu = cpuSeconds(server.pid);
  const place = { port: server.ports.secure, inFlight: IN_FLIGHT, connections: CONNECTIONS };
  const { seconds } = await load.ask({ ...place, ...caller, csr: request, certificates });
  return { perSecond: certificates / seconds, perCpuSecond: certificates / (cpuSeconds(server.pid) - cpu) };
}

async function measure({ options }: BenchContext, authority: Authority, key: KeyPair): Promise<Rate> {
  const certificates = options.services * CERTIFICATES_FACTOR;
  const request = csr({ key });
  for (let count = 0; count < options.warmUp; count++) await round(authority, request, certificates);
  const rates: Rate[] = [];
  for (let count = 0; count < options.rounds; count++) rates.push(await round(authority, request, certificates));
  return {
    perSecond: median(rates.map(({ perSecond }) => perSecond)),
    perCpuSecond: median(rates.map(({ perCpuSecond }) => perCpuSecond)),
  };
}

/**
 * The limit of the machine, per second of CPU: one signature by the authority's key and one verification of the
 * request's signature.
 */
function bound(authorityKey: string, key: KeyPair, certificates: number): number {
  const signer = createPrivateKey(authorityKey);
  const [data, publicKey] = [randomBytes(500), spki(key.publicKey)];
  const proof = signature('sha256', data, key.privateKey);
  const cpu = process.cpuUsage();
  for (let count = 0; count < certificates; count++) {
    signature('sha256', data, signer);
    verify('sha256', data, { key: publicKey, format: 'der', type: 'spki' }, proof);
  }
  const { user, system } = process.cpuUsage(cpu);
  return certificates / ((user + system) / 1e6);
}

export const sign: Bench = {
  name: 'sign',
  about: 'certificates that ctl-discovery issues, per second and per second of CPU',
  async run(context) {
    const { options, progress } = context;
    const now = Date.now();
    const root = { trustDomain: 'cluster.local', rsaBits: 2048, lifetimeSeconds: YEAR_MS / 1000, now, randomBytes };
    const [rsa, p256] = [rsaKey(2048), ecKey('P-256')];
    const rsaRoot = await createRoot(root);
    const p256Root = makeCa({ name: 'bench', notBefore: now, notAfter: now + YEAR_MS });
    const scope = createScope();
    try {
      const rows: (string | number)[][] = [];
      const authorities = { 'RSA-2048': rsaRoot, 'P-256': p256Root };
      for (const [ca, requests] of [
        ['RSA-2048', { 'RSA-2048': rsa, 'P-256': p256 }],
        ['P-256', { 'P-256': p256 }],
      ] as const) {
        const authority = await start(scope, context, authorities[ca]);
        for (const [requested, key] of Object.entries(requests)) {
          progress(`${requested} keys, ${ca} authority`);
          const { perSecond, perCpuSecond } = await measure(context, authority, key);
          const most = bound(authorities[ca].key, key, options.services * CERTIFICATES_FACTOR);
          rows.push([requested, ca, ...[perSecond, perCpuSecond, most].map(Math.round)]);
        }
        await authority.server.stop();
      }
      const columns = ['key', 'authority', 'per second', 'per CPU second', 'OpenSSL alone per CPU second'];
      return { rows: [], tables: [{ title: 'Certificates issued by ctl-discovery over TLS', columns, rows }] };
    } finally {
      await scope.close();
    }
  },
};
