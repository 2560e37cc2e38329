/** The settings of the external registry, from flags and variables. */
import { getHeapStatistics } from 'node:v8';
import { isDnsLabel } from '../../core/dns-names.ts';
import { CtlError } from '../../core/errors.ts';
import { type DiscoverySettings, registryServers } from '../../settings/index.ts';
import { CONSISTENCY_MODES, type ConsulSettings } from '../../sources/index.ts';

/** Consul waits no longer for a change, ms. */
const MAX_WAIT_MS = 10 * 60_000;

/** Share of the heap limit for all instances; derived data makes them about three times as large. */
const SHARE = 1 / 8;
/** Share of the instances of one service in that: others are read, too. */
const SERVICE_SHARE = 1 / 8;

/** Throws CtlError for a setting that cannot be used. */
export function extRegistrySettings(settings: DiscoverySettings): ConsulSettings {
  const servers = registryServers(settings.extregistryServerURL);
  if (servers.length === 0) {
    const message = 'the registry ExtRegistry needs --extregistryServerURL, such as http://127.0.0.1:8500';
    throw new CtlError('failed_precondition', message, { field: '--registries' });
  }
  const consistency = CONSISTENCY_MODES.find((mode) => mode === settings.extregistryConsistency);
  if (consistency === undefined) {
    throw unusable('CTL_EXTREGISTRY_CONSISTENCY', `expected one of ${CONSISTENCY_MODES.join(', ')}`);
  }
  if (!isDnsLabel(settings.extregistryNamespace)) {
    throw unusable('CTL_EXTREGISTRY_NAMESPACE', 'expected lower-case letters, digits and -');
  }
  const datacenters = settings.extregistryDatacenters.split(',').flatMap((name) => name.trim() || []);
  if (new Set(datacenters).size < datacenters.length) {
    throw unusable('CTL_EXTREGISTRY_DATACENTERS', 'a datacenter may be named only once');
  }
  const maxBytes = Math.floor((getHeapStatistics().heap_size_limit * SHARE) / Math.max(1, datacenters.length));
  return {
    servers,
    namespace: settings.extregistryNamespace,
    datacenters,
    consulNamespace: settings.extregistryConsulNamespace,
    partition: settings.extregistryPartition,
    tokenFile: settings.extregistryTokenFile,
    caFile: settings.extregistryCaFile,
    consistency,
    waitMs: Math.min(settings.extregistryWaitMs, MAX_WAIT_MS),
    timeoutMs: settings.extregistryTimeoutMs,
    maxRequests: settings.extregistryMaxRequests,
    sweepQps: settings.extregistrySweepQps,
    holdMs: settings.extregistryHoldMs,
    maxServices: settings.extregistryMaxServices,
    maxInstances: settings.extregistryMaxInstances,
    maxBytes,
    maxServiceBytes: Math.floor(maxBytes * SERVICE_SHARE),
    passingOnly: settings.extregistryPassingOnly,
  };
}

function unusable(variable: string, message: string): CtlError {
  return new CtlError('invalid_argument', message, { field: variable });
}
