/** Validates the ports at which sidecars listen for their applications: nothing else in the Pod may listen there. */
import type { MeshConfig } from '../schema/mesh-config.ts';
import type { ValidationErrors } from './validation-errors.ts';
import { checkPort } from './values.ts';

const FIELDS = ['proxyListenPort', 'proxyInboundListenPort', 'proxyHttpPort'] as const;

/** Ports of Envoy and of the agent, where nothing else is configured. */
const DEFAULTS = { admin: 15_000, status: 15_020, readiness: 15_021, dns: 15_053, metrics: 15_090 } as const;

export function checkProxyPorts(errors: ValidationErrors, mesh: MeshConfig): void {
  const { proxyAdminPort = DEFAULTS.admin, statusPort = DEFAULTS.status } = mesh.defaultConfig;
  const used = new Map<number, string>([
    [DEFAULTS.readiness, 'the readiness probe'],
    [DEFAULTS.dns, 'the DNS server of the agent'],
    [DEFAULTS.metrics, 'the metrics of Envoy'],
    [proxyAdminPort, "Envoy's admin interface"],
    [statusPort, 'the status server of the agent'],
  ]);
  for (const field of FIELDS) {
    const port = mesh[field];
    // proxyHttpPort 0: no such listener.
    if (port === 0 && field === 'proxyHttpPort') continue;
    checkPort(errors.at(field), port);
    const user = used.get(port);
    if (user !== undefined) errors.add([field], `expected another port than that of ${user}, got ${port}`);
    used.set(port, field);
  }
}
