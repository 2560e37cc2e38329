/** Determines names and addresses of the proxy's workload: from flags and variables, else from the machine. */
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { CtlError } from '../../core/errors.ts';
import type { AgentSettings } from '../../settings/index.ts';

export interface WorkloadAddress {
  readonly ip: string;
  /** All addresses, beginning with `ip`. */
  readonly addresses: readonly string[];
  /** Whether these are all addresses of the machine; false for one of several proxies on a loopback network. */
  readonly followsMachine: boolean;
  readonly workload: string;
  readonly namespace: string;
  readonly id: string;
  readonly domain: string;
}

export interface Machine {
  readonly hostName: string;
  /** Its addresses, without loopback and link-local ones. */
  readonly addresses: readonly string[];
}

export function thisMachine(): Machine {
  const addresses = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ internal, address }) => !internal && !/^(fe80:|169\.254\.)/i.test(address))
    .map(({ address }) => address);
  return { hostName: hostname(), addresses };
}

/**
 * Defaults of the proxy's id and domain (--serviceregistry), as Istio's agent has them: outside an orchestrator the id
 * has the address. Istio's agent has an empty domain for Mock, which the control plane refuses.
 */
function defaultNames(registry: string, ip: string, name: string, namespace: string) {
  const domain = `${namespace}.svc.cluster.local`;
  if (registry === 'ExtRegistry') return { id: `${ip}.service.consul`, domain: 'service.consul' };
  return registry === 'Mock' ? { id: ip, domain } : { id: `${name}.${namespace}`, domain };
}

/** Metadata of the node, of the mesh configuration and of the environment, which has precedence. */
interface Metadata {
  readonly MESH_META_AUTO_REGISTER_GROUP?: string | undefined;
  readonly MESH_META_NETWORK?: string | undefined;
}

/**
 * The default name of a workload: the name of its WorkloadEntry if it registers itself, because machines of one image
 * may all have the same host name; else the host name.
 */
function defaultWorkload(machine: Machine, ip: string, metadata: Metadata): string {
  const { MESH_META_AUTO_REGISTER_GROUP: group = '', MESH_META_NETWORK: network = '' } = metadata;
  // Only the first label: in the node id the namespace follows after a dot.
  if (group === '') return machine.hostName.split('.')[0] ?? '';
  const entry = [group, ip, ...(network === '' ? [] : [network])].join('-');
  return entry.replace(/[.:]/g, '-').replace(/-+$/, '');
}

/** Throws a CtlError when there is no address, or a name is not valid in a node id. */
export function workloadAddress(settings: AgentSettings, machine: Machine, metadata: Metadata = {}): WorkloadAddress {
  const ip = settings.ip === '' ? machine.addresses[0] : settings.ip;
  if (ip === undefined)
    throw new CtlError('invalid_argument', 'this machine has only loopback addresses: set --ip or INSTANCE_IP');
  if (isIP(ip) === 0)
    throw new CtlError(
      'invalid_argument',
      `invalid value ${JSON.stringify(ip)} of variable INSTANCE_IP: not an IP address`,
    );
  const namespace = settings.podNamespace === '' ? 'default' : settings.podNamespace;
  const workload = settings.podName === '' ? defaultWorkload(machine, ip, metadata) : settings.podName;
  for (const [name, value] of [
    ['POD_NAMESPACE', namespace],
    ['POD_NAME', workload],
  ] as const)
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(value))
      throw new CtlError(
        'invalid_argument',
        `invalid value ${JSON.stringify(value)} of variable ${name}: not a valid name`,
      );
  const byDefault = defaultNames(settings.serviceregistry, ip, workload, namespace);
  const id = settings.id === '' ? byDefault.id : settings.id;
  return {
    ip,
    // A loopback address belongs to one of several proxies on a machine, each with its own address.
    followsMachine: !isLoopback(ip),
    addresses: isLoopback(ip) ? [ip] : [...new Set([ip, ...machine.addresses])],
    workload: settings.id === '' ? workload : (id.split('.')[0] ?? id),
    namespace,
    id,
    domain: settings.domain === '' ? byDefault.domain : settings.domain,
  };
}

function isLoopback(ip: string): boolean {
  return ip.startsWith('127.') || ip === '::1';
}
