/** How a cluster chooses among its endpoints. */
import type { envoy } from '../../protobuf/index.ts';
import type { ConsistentHash, LoadBalancerSettings } from '../../resources/index.ts';
import { toDuration } from '../common/index.ts';

type Cluster = envoy.config.cluster.v3.Cluster.Input;
type Balancing = Pick<
  Cluster,
  'lbPolicy' | 'ringHashLbConfig' | 'maglevLbConfig' | 'roundRobinLbConfig' | 'leastRequestLbConfig'
>;

/** `envoy.config.cluster.v3.Cluster.LbPolicy` */
const ROUND_ROBIN = 0;
const LEAST_REQUEST = 1;
const RING_HASH = 2;
const RANDOM = 3;
const MAGLEV = 5;

/** Large enough for an even distribution over the endpoints of most services. */
const DEFAULT_RING_SIZE = 1024;
/** Envoy's limit of `minimum_ring_size`. */
const MAX_RING_SIZE = 8_388_608;

/** Round robin unless the settings differ. Not for original-destination clusters, which do not choose an endpoint. */
export function loadBalancing(settings: LoadBalancerSettings | undefined): Balancing {
  if (settings?.consistentHash !== undefined) return consistentHashing(settings.consistentHash);
  const warmup = settings?.warmup?.duration ?? settings?.warmupDurationSecs;
  const slowStart = warmup !== undefined && warmup > 0 ? { slowStartConfig: toSlowStart(settings, warmup) } : undefined;
  switch (settings?.simple) {
    case 'LEAST_REQUEST':
      return { lbPolicy: LEAST_REQUEST, ...(slowStart && { leastRequestLbConfig: slowStart }) };
    case 'RANDOM':
      return { lbPolicy: RANDOM };
    default:
      return { lbPolicy: ROUND_ROBIN, ...(slowStart && { roundRobinLbConfig: slowStart }) };
  }
}

/** For Redis: commands with the same key go to the same server, unless the settings say otherwise. */
export function sharding(settings: LoadBalancerSettings | undefined): Balancing {
  const isChosen = settings?.consistentHash !== undefined || (settings?.simple ?? 'UNSPECIFIED') !== 'UNSPECIFIED';
  return isChosen ? loadBalancing(settings) : { lbPolicy: MAGLEV };
}

function toSlowStart(
  settings: LoadBalancerSettings | undefined,
  windowMs: number,
): envoy.config.cluster.v3.Cluster.SlowStartConfig.Input {
  const { minimumPercent, aggression } = settings?.warmup ?? {};
  return {
    slowStartWindow: toDuration(windowMs),
    ...(minimumPercent !== undefined && { minWeightPercent: { value: minimumPercent } }),
    ...(aggression !== undefined && {
      aggression: { defaultValue: aggression, runtimeKey: 'upstream.slow_start.aggression' },
    }),
  };
}

function consistentHashing({ maglev, ringHash, minimumRingSize }: ConsistentHash): Balancing {
  if (maglev !== undefined) {
    const { tableSize } = maglev;
    return {
      lbPolicy: MAGLEV,
      ...(tableSize !== undefined && tableSize > 0 && { maglevLbConfig: { tableSize: { value: tableSize } } }),
    };
  }
  // The older field and the newer one both exist; 0 means absent in both.
  const size = ringHash?.minimumRingSize || minimumRingSize || DEFAULT_RING_SIZE;
  return { lbPolicy: RING_HASH, ringHashLbConfig: { minimumRingSize: { value: Math.min(size, MAX_RING_SIZE) } } };
}
