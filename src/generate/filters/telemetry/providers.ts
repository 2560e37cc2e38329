/** Extension providers of the mesh configuration to which telemetry is sent, and the clusters that lead to them. */
import { canonicalHost } from '../../../model/index.ts';
import type { ExtensionProvider, MeshConfig } from '../../../resources/index.ts';
import { clusterName } from '../../common/index.ts';
import type { ScopeReader } from '../../reads/index.ts';
import { thriftLimiter } from '../thrift-rate-limit.ts';

/** The service of a provider, and the cluster through which the proxy reaches it. */
export interface Collector {
  readonly host: string;
  readonly port: number;
  readonly cluster: string;
}

/** A provider that cannot be used, and why. */
export interface Unavailable {
  readonly problem: string;
}

/** The provider of this name. A name that two providers share cannot be used, because it is ambiguous. */
export function providerNamed(mesh: MeshConfig, name: string): ExtensionProvider | Unavailable {
  const [provider, second] = mesh.extensionProviders.filter((each) => each.name === name);
  if (provider === undefined) return { problem: `the mesh configuration has no extension provider ${name}` };
  if (second !== undefined) return { problem: `the mesh configuration has more than one extension provider ${name}` };
  return provider;
}

/** The service of a provider in the scope of the proxy, which only has clusters of this scope. */
export function collectorOf(
  scope: ScopeReader | undefined,
  name: string,
  { service: written, port }: { readonly service: string; readonly port: number },
): Collector | Unavailable {
  const { host, namespace } = hostOf(written);
  const service = scope?.services.get(host);
  if (service === undefined || (namespace !== undefined && service.namespace !== namespace)) {
    return { problem: `extension provider ${name}: the proxy sees no service ${written}` };
  }
  if (!service.ports.some((each) => each.port === port && each.protocol !== 'UDP')) {
    return { problem: `extension provider ${name}: service ${written} has no port ${port}` };
  }
  return { host, port, cluster: clusterName('outbound', port, '', host) };
}

function hostOf(written: string): { readonly host: string; readonly namespace: string | undefined } {
  const slash = written.indexOf('/');
  const host = canonicalHost(written.slice(slash + 1));
  return { host, namespace: slash < 0 ? undefined : written.slice(0, slash) };
}

/** The hosts of telemetry collectors and rate limit services, whether or not such services exist. */
export function collectorHosts(mesh: MeshConfig): ReadonlySet<string> {
  const hosts = new Set<string>();
  for (const provider of mesh.extensionProviders) {
    const { zipkin, opentelemetry, datadog, skywalking, envoyHttpAls, envoyTcpAls, envoyOtelAls } = provider;
    for (const each of [zipkin, opentelemetry, datadog, skywalking, envoyHttpAls, envoyTcpAls, envoyOtelAls])
      if (each !== undefined) hosts.add(hostOf(each.service).host);
  }
  const limiter = thriftLimiter(mesh);
  if (limiter !== undefined) hosts.add(limiter.host);
  return hosts;
}
