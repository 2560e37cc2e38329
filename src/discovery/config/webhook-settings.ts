/** The settings of injection, from those of the program, the mesh configuration and the documents of the user. */
import { buildInfo } from '../../core/build-info.ts';
import type { MeshConfig, ProxyConfig } from '../../resources/index.ts';
import { ROOT_CONFIG_MAP } from '../../security/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { InjectionSettings } from '../../webhooks/index.ts';
import { revisionSuffix } from '../process/revision.ts';
import { modelSettings } from './model-settings.ts';

const SECURE_PORT = 15_012;

/** @param texts the documents of the user: `config` and `values` */
export function injectionSettings(
  settings: DiscoverySettings,
  mesh: MeshConfig,
  texts: Pick<InjectionSettings, 'config' | 'values'>,
): InjectionSettings {
  const { gatewayImage, namespace, domain, revision, clusterID, jwtPolicy } = settings;
  return {
    ...texts,
    proxyConfig: writtenProxyConfig(mesh.defaultConfig),
    enablePrometheusMerge: mesh.enablePrometheusMerge,
    discoveryAddress: `meshd${revisionSuffix(revision)}.${namespace}.svc:${SECURE_PORT}`,
    controlPlaneNamespace: namespace,
    trustDomain: modelSettings(settings, mesh).trustDomain,
    domain,
    clusterId: clusterID,
    revision,
    jwtPolicy,
    image: gatewayImage === '' ? `ctl-agent:${buildInfo().version}` : gatewayImage,
    rootConfigMap: ROOT_CONFIG_MAP,
  };
}

/** The names of durations, which are read as milliseconds. */
const DURATIONS: ReadonlySet<string> = new Set([
  'drainDuration',
  'parentShutdownDuration',
  'terminationDrainDuration',
  'time',
  'interval',
]);

/** A proxy configuration as the API writes it, with durations as strings. */
export function writtenProxyConfig(config: ProxyConfig): Readonly<Record<string, unknown>> {
  const written = JSON.stringify(config, (key, value: unknown) =>
    DURATIONS.has(key) && typeof value === 'number' ? `${value / 1000}s` : value,
  );
  return JSON.parse(written) as Readonly<Record<string, unknown>>;
}
