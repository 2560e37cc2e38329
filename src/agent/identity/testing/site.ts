/** Test support: an agent's identity and a fake certificate service, in a temporary folder. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { FakeClock } from '../../../core/testing/fake-clock.ts';
import { defaultAgentSettings } from '../../../settings/index.ts';
import type { AgentIdentity } from '../../types.ts';
import { type AgentIdentityOptions, type IdentitySettings, startAgentIdentity } from '../index.ts';
import { startTestCa, TEST_IDENTITY, TEST_SERVER_NAME, type TestCa, type TestCaOptions } from './test-ca.ts';

/** The files and settings of an agent whose certificates a fake authority signs. */
export interface Preparation {
  readonly files: { readonly roots: string; readonly token: string };
  options(settings?: Partial<IdentitySettings>): AgentIdentityOptions;
  /** Writes a token that expires in this many seconds. */
  writeToken(expiresInSeconds: number): Promise<string>;
}

/** Writes the authority's root into a folder. */
export async function prepare(folder: string, ca: TestCa): Promise<Preparation> {
  const files = { roots: join(folder, 'root.pem'), token: join(folder, 'token') };
  await writeFile(files.roots, ca.root.pem);
  return {
    files,
    options: (settings = {}) => ({
      identity: TEST_IDENTITY,
      trustDomainSet: false,
      caServer: { host: '127.0.0.1', port: ca.port, serverName: TEST_SERVER_NAME, tls: true },
      sdsPath: join(folder, 'sds', 'SDS'),
      settings: defaultAgentSettings({
        caRootsFile: files.roots,
        caTokenFile: files.token,
        eccSignatureAlgorithm: 'ECDSA',
        initialBackoffMs: 20,
        ...settings,
      }),
    }),
    async writeToken(seconds) {
      const claims = Buffer.from(JSON.stringify({ exp: Math.round(Date.now() / 1000) + seconds, id: Math.random() }));
      const token = `e30.${claims.toString('base64url')}.c2ln`;
      await writeFile(files.token, token);
      return token;
    },
  };
}

/** An authority, and agents that use it; all are closed with the test. */
export interface Site extends Pick<Preparation, 'files' | 'writeToken'> {
  readonly folder: string;
  readonly ca: TestCa;
  start(settings?: Partial<IdentitySettings>, options?: Partial<AgentIdentityOptions>): Promise<AgentIdentity>;
}

export async function site(context: TestContext, caOptions: TestCaOptions = {}): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), 'identity-'));
  const ca = await startTestCa(caOptions);
  const started: AgentIdentity[] = [];
  context.after(async () => {
    await Promise.all(started.map((identity) => identity.close()));
    ca.close();
    await rm(folder, { recursive: true });
  });
  const { files, options, writeToken } = await prepare(folder, ca);
  return {
    folder,
    ca,
    files,
    writeToken,
    async start(settings = {}, more = {}) {
      const identity = await startAgentIdentity({ ...options(settings), ...more });
      started.push(identity);
      return identity;
    },
  };
}

/** Of a certificate that is renewed in its middle: soon, and with seconds left, which a crowded machine may need. */
export const SHORT_LIFE_MS = 4_000;

/** Only what does not happen takes so long, also on a crowded machine. */
const LIMIT_MS = 60_000;

/** Waits in real time, because the other side is a real process or network. */
export async function eventually(check: () => void, clock?: FakeClock): Promise<void> {
  for (const started = performance.now(); ; ) {
    try {
      check();
      return;
    } catch (error) {
      if (performance.now() - started > LIMIT_MS) throw error;
    }
    await clock?.advance(10);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/**
 * The value of a metric.
 * @param type of a counter of requests; absent: the first
 */
export const metric = (identity: AgentIdentity, name: string, type?: string): number =>
  identity.metrics().find((each) => each.name === name && (type === undefined || each.labels?.request_type === type))
    ?.value ?? Number.NaN;
