/** CTL_CERT_PROVIDER, and the certificate of the secure gRPC address from a signer of the cluster. */
import { systemClock } from '../../core/clock.ts';
import { CtlError } from '../../core/errors.ts';
import { getScope } from '../../logging/index.ts';
import { type ClusterSigner, createClusterSigner } from '../../security/index.ts';
import type { Cluster } from '../clusters/cluster.ts';

const FIELD = 'CTL_CERT_PROVIDER';

/** Kubernetes itself has no signer for servers other than kubelets, so the provider names one. */
const OF_CLUSTER = 'orchestrator/';

/** `<domain>/<path>`, as names of signers are. */
const SIGNER_NAME = /^[a-z0-9.-]+\/\S+$/;

/** The signer that a provider `orchestrator/<signer>` names; undefined for other providers. */
export function signerOf(certProvider: string): string | undefined {
  return certProvider.startsWith(OF_CLUSTER) ? certProvider.slice(OF_CLUSTER.length) : undefined;
}

/** Throws CtlError invalid_argument for an unknown provider, and for a signer of the cluster without a cluster. */
export function checkCertProvider(certProvider: string, cluster: Cluster | undefined): void {
  if (certProvider === 'meshd' || certProvider === 'none') return;
  const signer = signerOf(certProvider);
  if (signer === undefined || !SIGNER_NAME.test(signer)) {
    const known = 'meshd, none, orchestrator/<signer name> (as in orchestrator/example.com/serving)';
    throw new CtlError('invalid_argument', `${JSON.stringify(certProvider)} is not one of ${known}`, { field: FIELD });
  }
  if (cluster !== undefined) return;
  const message = 'needs an API server: name one with --kubeconfig, or run in a Pod';
  throw new CtlError('invalid_argument', message, { field: `${FIELD}=${certProvider}` });
}

/** @param namespace of this program, for the names of its requests */
export function openClusterSigner({ client }: Cluster, signerName: string, namespace: string): ClusterSigner {
  return createClusterSigner({
    client,
    signerName,
    namePrefix: `meshd-${namespace}`,
    clock: systemClock,
    random: Math.random,
    now: Date.now,
    onWaiting: (reason) => getScope('pkica').info(`certificate of the secure gRPC address: ${reason}`),
  });
}
