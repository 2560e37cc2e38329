/** The settings of the control plane's DNS server, which is loaded only when a variable enables it. */
import { CtlError, messageOf } from '../../core/errors.ts';
import type { Part } from '../../core/process/closers.ts';
import type { Engine } from '../../push/index.ts';
import { type DiscoverySettings, type Environment, isEnabled, parseListenAddress } from '../../settings/index.ts';
import type { MeshIdentity } from '../identity/identity.ts';

export interface DnsInputs {
  readonly settings: DiscoverySettings;
  readonly env: Environment;
  readonly engine: Pick<Engine, 'snapshot'>;
  readonly identity: Pick<MeshIdentity, 'certificate' | 'callers'>;
}

const NO_SERVER: Part = { close() {} };

/** Starts the server if DNS_AGENT or DNS_ADDR is set. Rejects with CtlError that names the variable. */
export async function startDns({ settings, env, engine, identity }: DnsInputs): Promise<Part> {
  const { dnsAgent, dnsAddress, dnsServer, domain } = settings;
  const address = checked('DNS_ADDR', dnsAddress, parseListenAddress);
  const isWanted = isEnabled(dnsAgent) || (env.DNS_ADDR ?? '') !== '';
  if (!isWanted && dnsServer === '') return NO_SERVER;
  const [{ parseTlsServer }, { serveDns }] = await Promise.all([
    import('../../dns/index.ts'),
    import('./dns-server.ts'),
  ]);
  if (dnsServer !== '') checked('DNS_SERVER', dnsServer, parseTlsServer);
  if (!isWanted) return NO_SERVER;
  const { certificate, callers } = identity;
  if (certificate === undefined) {
    const message = 'DNS over TLS needs a certificate: --tlsCertFile and --tlsKeyFile, or CTL_CERT_PROVIDER=meshd';
    throw new CtlError('failed_precondition', message, { field: 'DNS_ADDR' });
  }
  return serveDns({ address, dnsServer, domain, engine, certificate, callers });
}

function checked<T>(variable: string, text: string, read: (text: string) => T): T {
  try {
    return read(text);
  } catch (error) {
    const value = JSON.stringify(text.slice(0, 80));
    throw new CtlError('invalid_argument', `invalid value ${value} of variable ${variable}: ${messageOf(error)}`);
  }
}
