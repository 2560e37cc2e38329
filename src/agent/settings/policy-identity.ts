/** --policyIdentity: the SPIFFE ID by which proxies verify the policy component. */
import type { AgentSettings } from '../../settings/index.ts';
import { type ControlPlane, DEFAULT_NAMESPACE } from './control-plane.ts';

/** As Istio up to 1.7 names the service account of its policy component. */
const DEFAULT_SERVICE_ACCOUNT = 'mesh-policy-service-account';

export interface PolicyIdentity {
  /** The SPIFFE ID for bootstrap templates, which have one without the flag, too. */
  readonly san: string;
  /**
   * The SPIFFE ID that certificates of the control plane must have for decisions and records; undefined: the DNS name
   * counts, as for xDS.
   */
  readonly required: string | undefined;
  /** Whether Envoy's bootstrap needs a cluster that verifies it. */
  readonly inBootstrap: boolean;
  readonly warnings: readonly string[];
}

/**
 * @param upstreams the addresses of the control plane
 * @param hasTemplate whether the bootstrap is that of a template, which names the clusters
 */
export function policyIdentity(
  { policyIdentity: suffix, xdsLocal, meshNamespace }: AgentSettings,
  trustDomain: string,
  upstreams: readonly ControlPlane[],
  hasTemplate: boolean,
): PolicyIdentity {
  const namespace = meshNamespace || DEFAULT_NAMESPACE;
  const san = `spiffe://${trustDomain}/${suffix || `ns/${namespace}/sa/${DEFAULT_SERVICE_ACCOUNT}`}`;
  if (suffix === '') return { san, required: undefined, inBootstrap: false, warnings: [] };
  const tls = upstreams.every((each) => each.tls);
  const proxied = xdsLocal !== '';
  return {
    san,
    required: tls ? san : undefined,
    inBootstrap: tls && !proxied && !hasTemplate,
    warnings: tls || hasTemplate ? [] : ['--policyIdentity has no effect: the control plane is reached in plain text'],
  };
}
