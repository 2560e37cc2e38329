/**
 * Settings of the agent's DNS server: DNS_AGENT, DNS_ADDR, DNS_SERVER and MESH_META_DNS_CAPTURE, checked before
 * anything is started.
 */
import { isIP } from 'node:net';
import { CtlError, messageOf } from '../../core/errors.ts';
import { type AgentSettings, type Environment, isEnabled, parseListenAddress } from '../../settings/index.ts';
import type { ControlPlane } from '../settings/control-plane.ts';
import type { WorkloadAddress } from '../settings/workload-address.ts';

export interface DnsPlan {
  readonly address: DnsAddress;
  /** Undefined when the name servers of resolv.conf are used. */
  readonly server: TlsServer | undefined;
  readonly namespace: string;
  /** Domain of the services of all namespaces: `svc.cluster.local`. */
  readonly domain: string;
  readonly warnings: readonly string[];
}

export interface DnsAddress {
  /** An IP address, `loopback`, or `all` addresses of the machine. */
  readonly host: string;
  readonly port: number;
}

/** A server that is asked over TLS. */
export interface TlsServer {
  readonly host: string;
  readonly port: number;
  /**
   * If this server is the control plane, the name in its certificate; it is then sent the workload's certificate.
   * Undefined for other servers.
   */
  readonly controlPlaneName: string | undefined;
}

export interface DnsPlanInput {
  readonly settings: Pick<AgentSettings, 'dnsAgent' | 'dnsAddress' | 'dnsServer' | 'dnsCapture'>;
  readonly env: Environment;
  readonly workload: Pick<WorkloadAddress, 'namespace' | 'domain'>;
  /** The addresses of xDS and of the certificate authority. */
  readonly controlPlane: readonly ControlPlane[];
}

/** Undefined when no variable enables the DNS server. Rejects with CtlError for an invalid variable. */
export async function dnsPlan({ settings, env, workload, controlPlane }: DnsPlanInput): Promise<DnsPlan | undefined> {
  const { dnsAgent, dnsAddress, dnsServer, dnsCapture } = settings;
  const address = await checked('DNS_ADDR', dnsAddress, parseAddress);
  const server =
    dnsServer === '' ? undefined : await checked('DNS_SERVER', dnsServer, (text) => parseServer(text, controlPlane));
  if (!isEnabled(dnsAgent) && (env.DNS_ADDR ?? '') === '') return undefined;
  const warnings: string[] = [];
  if (isEnabled(dnsAgent) && isEnabled(dnsCapture))
    warnings.push('DNS_AGENT and MESH_META_DNS_CAPTURE are both set: the agent, not Envoy, answers DNS queries');
  if (!isLoopback(address.host))
    warnings.push(`DNS_ADDR ${dnsAddress}: every client that reaches this address can resolve names`);
  const { namespace, domain } = workload;
  const own = `${namespace}.`;
  const mesh = domain.startsWith(own) ? domain.slice(own.length) : domain;
  return { address, server, namespace, domain: mesh, warnings };
}

/** Whether only programs of this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host === 'loopback' || host === '::1' || host.startsWith('127.');
}

async function checked<T>(variable: string, text: string, read: (text: string) => T | Promise<T>): Promise<T> {
  try {
    return await read(text);
  } catch (error) {
    const value = JSON.stringify(text.slice(0, 80));
    throw new CtlError('invalid_argument', `invalid value ${value} of variable ${variable}: ${messageOf(error)}`);
  }
}

function parseAddress(text: string): DnsAddress {
  const { host, port } = parseListenAddress(text);
  if (port === 0) throw new CtlError('invalid_argument', 'port 0 is not allowed');
  if (host === undefined) return { host: text.startsWith('*') ? 'all' : 'loopback', port };
  if (host === 'localhost') return { host: 'loopback', port };
  if (isIP(host) === 0) throw new CtlError('invalid_argument', `${host} is not an IP address`);
  return { host, port };
}

async function parseServer(text: string, controlPlane: readonly ControlPlane[]): Promise<TlsServer> {
  const { parseTlsServer } = await import('../../dns/index.ts');
  const { host, port } = parseTlsServer(text);
  const own = controlPlane.find((each) => each.tls && each.host === host);
  return { host, port, controlPlaneName: own?.serverName };
}
