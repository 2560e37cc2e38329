/** The arguments of `ctl-agent mesh-iptables` for a Pod (docs/mesh-iptables.md). */
import { ANNOTATIONS } from './annotations/annotations.ts';

export interface RedirectionInput {
  readonly mode: 'REDIRECT' | 'TPROXY';
  /** The fields are lists; `*` as the only entry means everything. */
  readonly includeInboundPorts: readonly string[];
  readonly excludeInboundPorts: readonly string[];
  readonly includeOutboundPorts: readonly string[];
  readonly excludeOutboundPorts: readonly string[];
  readonly includeOutboundRanges: readonly string[];
  readonly excludeOutboundRanges: readonly string[];
  readonly kubevirtInterfaces: readonly string[];
  /** Port of the agent; 0: the default one. */
  readonly statusPort: number;
}

export const REDIRECTION_COMMAND = 'mesh-iptables';

/** User and group of the proxy, whose traffic is not redirected, unless its container has others. */
export const PROXY_USER = 1337;
/** The ports on which Envoy listens: administration, outbound, inbound, metrics. */
export const ENVOY_PORTS: readonly number[] = [15_000, 15_001, 15_006, 15_090];
/** The port on which the agent listens by default. */
export const AGENT_STATUS_PORT = 15_020;
/** Served by agent and Envoy, and called from outside of the mesh: metrics, readiness, probes. */
export const PROXY_PORTS = ['15090', '15021', '15020'];

/** The variables for DNS capture, which both `mesh-iptables` and the agent read. */
export const REDIRECTION_VARIABLES: ReadonlySet<string> = new Set(['DNS_ADDR', 'DNS_AGENT', 'MESH_META_DNS_CAPTURE']);

/** Check the rules of a CNI plugin instead of applying rules. */
export const VALIDATION_FLAGS: readonly string[] = ['--run-validation', '--skip-rule-apply'];

export function redirectionArguments(input: RedirectionInput): readonly string[] {
  const { statusPort } = input;
  const own = statusPort === 0 ? PROXY_PORTS : [...new Set([...PROXY_PORTS, String(statusPort)])];
  const all = input.includeInboundPorts.includes('*');
  const flags: readonly (readonly [flag: string, values: readonly string[]])[] = [
    ['-u', [String(PROXY_USER)]],
    ['-g', [String(PROXY_USER)]],
    ['-m', [input.mode]],
    ['-i', input.includeOutboundRanges],
    ['-x', input.includeOutboundRanges.includes('*') ? input.excludeOutboundRanges : []],
    ['-b', input.includeInboundPorts],
    ['-d', all ? [...new Set([...own, ...input.excludeInboundPorts])] : []],
    ['-q', input.includeOutboundPorts],
    ['-o', input.excludeOutboundPorts],
    ['-k', input.kubevirtInterfaces],
  ];
  const given = flags.filter(([, values]) => values.length > 0);
  return [REDIRECTION_COMMAND, ...given.flatMap(([flag, values]) => [flag, values.join(',')])];
}

/**
 * The same as annotations: a CNI plugin reads them from the Pod. A plugin excludes the ports of the proxy itself, and
 * finds its user and group in the security context of its container.
 */
export function redirectionAnnotations(input: RedirectionInput): Readonly<Record<string, string>> {
  const all = { ports: input.includeInboundPorts.includes('*'), ranges: input.includeOutboundRanges.includes('*') };
  const always: readonly (readonly [option: keyof typeof ANNOTATIONS, values: readonly string[]])[] = [
    ['interceptionMode', [input.mode]],
    ['includeInboundPorts', input.includeInboundPorts],
    ['includeOutboundRanges', input.includeOutboundRanges],
  ];
  const given: typeof always = [
    ['excludeInboundPorts', all.ports ? input.excludeInboundPorts : []],
    ['excludeOutboundRanges', all.ranges ? input.excludeOutboundRanges : []],
    ['includeOutboundPorts', input.includeOutboundPorts],
    ['excludeOutboundPorts', input.excludeOutboundPorts],
    ['kubevirtInterfaces', input.kubevirtInterfaces],
  ];
  const written = [...always, ...given.filter(([, values]) => values.length > 0)];
  return Object.fromEntries(written.map(([option, values]) => [ANNOTATIONS[option].name, values.join(',')]));
}

/** Warnings about annotations that have no effect because of others, one line each. */
export function ineffectiveExclusions(input: RedirectionInput): readonly string[] {
  const lines: string[] = [];
  const { includeInboundPorts, excludeInboundPorts, includeOutboundRanges, excludeOutboundRanges } = input;
  if (!includeInboundPorts.includes('*') && excludeInboundPorts.length > 0) {
    lines.push(without('excludeInboundPorts', 'all inbound ports are redirected', 'includeInboundPorts'));
  }
  if (!includeOutboundRanges.includes('*') && excludeOutboundRanges.length > 0) {
    lines.push(without('excludeOutboundRanges', 'all addresses are redirected', 'includeOutboundRanges'));
  }
  return lines;
}

function without(option: keyof typeof ANNOTATIONS, when: string, by: keyof typeof ANNOTATIONS): string {
  const { name } = ANNOTATIONS[option];
  return `metadata.annotations[${name}]: applies only where ${when} (${ANNOTATIONS[by].name}: "*")`;
}
