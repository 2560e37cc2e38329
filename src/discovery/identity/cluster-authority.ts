/**
 * The parts of the certificate authority in a cluster: a Secret with its root, an elected replica that replaces the
 * root, and the root certificates in a ConfigMap of every namespace.
 */
import { untilAborted } from '../../core/process/until-aborted.ts';
import { wallClock } from '../../core/wall-clock.ts';
import { getScope } from '../../logging/index.ts';
import { type Authority, type AuthorityOptions, createSecretStore } from '../../security/index.ts';
import type { DiscoverySettings } from '../../settings/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import type { LeaderTask } from '../clusters/leadership.ts';
import { listOf } from '../pipeline/intake.ts';
import { RootCertificates } from './root-certificates.ts';

/** All revisions sign with one root, and write the same ConfigMaps. */
const ACROSS_REVISIONS = { acrossRevisions: true };

/** Options of an authority whose self-signed root all replicas share. */
export function sharedAuthority(
  { client, leadership, closing }: Cluster,
  { namespace }: DiscoverySettings,
): Pick<AuthorityOptions, 'store' | 'elect' | 'signal'> {
  return {
    store: createSecretStore({
      client,
      namespace,
      now: wallClock.now,
      log: getScope('pkica'),
    }),
    elect: (lead) => leadership.run('certificate-authority', lead, ACROSS_REVISIONS),
    signal: closing,
  };
}

/** Writes the trust bundle into namespaces; one replica does so for all. */
export function publishRootCertificates(
  { client, leadership }: Cluster,
  { namespace, appNamespace }: DiscoverySettings,
  authority: Authority,
): LeaderTask {
  const lead = async (signal: AbortSignal): Promise<void> => {
    const certificates = new RootCertificates({
      client,
      own: namespace,
      namespaces: listOf(appNamespace),
      bundle: () => authority.trustBundle().join(''),
      log: getScope('rootcertrotator'),
    });
    const endListening = authority.onChange(() => certificates.bundleChanged());
    certificates.start();
    await untilAborted(signal);
    endListening();
    await certificates.close();
  };
  return leadership.run('root-certificates', lead, ACROSS_REVISIONS);
}
