/**
 * Where the hosts are saved that sidecars have learned: in a ConfigMap of the cluster, which the replicas share, else
 * in the state directory.
 */
import { systemClock } from '../../core/clock.ts';
import { getScope } from '../../logging/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import { configMap, fileIn, SavedHosts, type XdsServer } from '../../xds/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import { revisionSuffix } from '../process/revision.ts';

const CONFIG_MAP = 'meshd-learned-hosts';

/** Saves what proxies of the server learn, until it is closed. */
export function saveLearnedHosts(
  { learnedHosts: learned }: XdsServer,
  { namespace, revision, stateDir, sidecarConfiguration }: DiscoverySettings,
  cluster: Pick<Cluster, 'client'> | undefined,
): SavedHosts {
  const log = getScope('ads');
  const place =
    cluster === undefined
      ? fileIn(stateDir, log)
      : configMap({ client: cluster.client, namespace, name: `${CONFIG_MAP}${revisionSuffix(revision)}`, log });
  const isExpected = cluster === undefined || sidecarConfiguration === 'learned';
  const saved = new SavedHosts({
    learned,
    place,
    isExpected,
    clock: systemClock,
    now: Date.now,
    random: Math.random,
    log,
  });
  saved.start();
  return saved;
}
