/** The DNS server as a part of the agent: loaded when it is needed, after Envoy has been started. */
import { readFile } from 'node:fs/promises';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import type { Closers } from '../../core/process/closers.ts';
import { getScope } from '../../logging/index.ts';
import type { Environment } from '../../settings/index.ts';
import { readSystemAuthorities } from '../identity/system-authorities.ts';
import type { LazyConnection } from '../lazy-connection.ts';
import type { AgentMetrics } from '../metrics/metrics.ts';
import type { WorkloadIdentity } from '../types.ts';
import type { DnsPlan } from './plan.ts';

export interface DnsPartDeps {
  readonly connection: LazyConnection;
  readonly identity: WorkloadIdentity;
  readonly metrics: AgentMetrics;
  readonly closers: Closers;
  readonly env: Environment;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export interface DnsPart {
  /** Why the proxy is not ready because of DNS; undefined when DNS is ready. */
  missing(): string | undefined;
  /** Rejects with CtlError when an address cannot be bound. */
  start(deps: DnsPartDeps): Promise<void>;
}

const NO_SERVER: DnsPart = { missing: () => undefined, start: async () => {} };

/** @param plan undefined: no DNS server */
export function createDnsPart(plan: DnsPlan | undefined): DnsPart {
  if (plan === undefined) return NO_SERVER;
  let missing = (): string | undefined => 'the DNS server does not listen yet';
  return {
    missing: () => missing(),
    async start({ connection, identity, metrics, closers, env, now }) {
      const isForeign = plan.server !== undefined && plan.server.controlPlaneName === undefined;
      const [{ startAgentDns }, controlPlane, authorities] = await Promise.all([
        import('./index.ts'),
        connection.get(),
        isForeign ? systemAuthorities(env) : undefined,
      ]);
      const running = closers.use(
        await startAgentDns({
          plan,
          connection: controlPlane,
          secrets: identity.secrets,
          systemAuthorities: authorities,
          now,
          log: getScope('default'),
        }),
      );
      missing = running.missing;
      metrics.include(running.metrics);
    },
  };
}

/** PEM; undefined where the system has none. Rejects with CtlError for a file that cannot be read. */
async function systemAuthorities(env: Environment): Promise<string | undefined> {
  const readText = (file: string): Promise<string> =>
    readFile(file, 'utf8').catch((error: unknown) => {
      const code = errnoOf(error) === 'ENOENT' ? 'not_found' : 'unavailable';
      throw new CtlError(code, `DNS_SERVER: ${messageOf(error)}`, {}, error);
    });
  try {
    return (await readSystemAuthorities(readText, env)).text;
  } catch (error) {
    if (error instanceof CtlError && error.code === 'not_found' && !env.SSL_CERT_FILE) return undefined;
    throw error;
  }
}
