/** Who and where the proxy is: flags and variables, with what the machine says where they are silent. */
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { CtlError } from '../../core/errors.ts';
import type { AgentSettings } from '../../settings/index.ts';

export interface Place {
  readonly ip: string;
  /** `ip` first. */
  readonly addresses: readonly string[];
  /** Whether these are all that the machine has; false for one of several proxies on a loopback network. */
  readonly followsMachine: boolean;
  readonly workload: string;
  readonly namespace: string;
  readonly id: string;
  readonly domain: string;
}

/** What the machine says. */
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

/** Throws a CtlError when there is no address, or a name that cannot stand in a node id. */
export function placeOf(settings: AgentSettings, machine: Machine): Place {
  const ip = settings.ip === '' ? machine.addresses[0] : settings.ip;
  if (ip === undefined)
    throw new CtlError('invalid_argument', 'this machine has no address besides loopback: give --ip or INSTANCE_IP');
  if (isIP(ip) === 0)
    throw new CtlError(
      'invalid_argument',
      `invalid value ${JSON.stringify(ip)} of variable INSTANCE_IP: not an IP address`,
    );
  const namespace = settings.podNamespace === '' ? 'default' : settings.podNamespace;
  // Only the first label: the namespace follows after a dot.
  const workload = settings.podName === '' ? (machine.hostName.split('.')[0] ?? '') : settings.podName;
  for (const [name, value] of [
    ['POD_NAMESPACE', namespace],
    ['POD_NAME', workload],
  ] as const)
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(value))
      throw new CtlError('invalid_argument', `invalid value ${JSON.stringify(value)} of variable ${name}: not a name`);
  const id = settings.id === '' ? `${workload}.${namespace}` : settings.id;
  return {
    ip,
    // A loopback address is one of several proxies on a machine, each with an address of its own.
    followsMachine: !isLoopback(ip),
    addresses: isLoopback(ip) ? [ip] : [...new Set([ip, ...machine.addresses])],
    workload: settings.id === '' ? workload : (id.split('.')[0] ?? id),
    namespace,
    id,
    domain: settings.domain === '' ? `${namespace}.svc.cluster.local` : settings.domain,
  };
}

function isLoopback(ip: string): boolean {
  return ip.startsWith('127.') || ip === '::1';
}
