/** `ctl-agent proxy` as users start it, with an authority that signs its requests. */

import { writeFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { startTestCa } from '../../src/agent/identity/testing/test-ca.ts';
import { type Agent, startAgent } from '../../test/harness/agent.ts';
import { freePort, tempDir } from '../../test/harness/files.ts';
import type { Owner } from '../../test/harness/owner.ts';
import type { BenchContext } from '../mesh.ts';

/** Part of a certificate's life after which the agent renews it. */
const GRACE_RATIO = '0.9';

/** An authority that signs every request, and the settings by which an agent calls it. */
export async function authority(owner: Owner) {
  const ca = await startTestCa();
  owner.after(() => ca.close());
  const folder = await tempDir(owner);
  const [roots, token] = [join(folder, 'root-cert.pem'), join(folder, 'token')];
  await writeFile(roots, ca.root.pem);
  await writeFile(token, 'token');
  const env = {
    CA_ADDR: `127.0.0.1:${ca.port}`,
    CA_ROOT_CA: roots,
    CA_TOKEN_FILE: token,
    SKIP_PARSE_TOKEN: 'true',
    SERVICE_ACCOUNT: 'web',
    SECRET_GRACE_PERIOD_RATIO: GRACE_RATIO,
  };
  const issued = () => ca.calls.filter(({ method }) => method === 'CreateCertificate').length;
  return { ca, env, issued };
}

export type Authority = Awaited<ReturnType<typeof authority>>;

/** Variables that switch everything on: the xDS proxy with its snapshot, and the DNS server on the port. */
export async function everything(owner: Owner): Promise<{ readonly env: Record<string, string>; dnsPort: number }> {
  const folder = await tempDir(owner);
  const dnsPort = await freePort();
  const [XDS_LOCAL, XDS_SAVE] = [join(folder, 'XDS'), join(folder, 'snapshot')];
  return { env: { XDS_LOCAL, XDS_SAVE, DNS_AGENT: 'true', DNS_ADDR: `127.0.0.1:${dnsPort}` }, dnsPort };
}

export interface AgentStart {
  readonly discoveryPort: number;
  /** Runs in place of the real Envoy. */
  readonly envoy: string;
  readonly env: Readonly<Record<string, string>>;
  /** Default true. */
  readonly waitReady?: boolean;
}

/** The agent of the folder that `ctl-discovery` is of. */
export function startBenchAgent(owner: Owner, { program }: BenchContext, start: AgentStart): Promise<Agent> {
  return startAgent(owner, {
    name: 'bench',
    program: join(dirname(program), `ctl-agent${extname(program)}`),
    discoveryAddress: `127.0.0.1:${start.discoveryPort}`,
    proxyConfig: { controlPlaneAuthPolicy: 'NONE' },
    env: { ...start.env, ENVOY_PATH: start.envoy, TERMINATION_DRAIN_DURATION_SECONDS: '0' },
    waitReady: start.waitReady ?? true,
  });
}
