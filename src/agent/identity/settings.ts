/** Which settings decide over the workload's identity, checked before anything is started. */
import { CtlError } from '../../core/errors.ts';
import type { AgentSettings } from '../../settings/index.ts';

export type IdentitySettings = Pick<
  AgentSettings,
  | 'caProvider'
  | 'caRootsFile'
  | 'caTokenFile'
  | 'jwtPolicy'
  | 'useTokenForCsr'
  | 'skipParseToken'
  | 'eccSignatureAlgorithm'
  | 'pkcs8Key'
  | 'secretLifetimeSeconds'
  | 'secretGracePeriodRatio'
  | 'secretRotationCheckIntervalMs'
  | 'initialBackoffMs'
  | 'provCert'
  | 'outputCerts'
  | 'fileMountedCerts'
  | 'staleConnectionIntervalMs'
> &
  // Empty or left out: whatever the token says.
  Partial<Pick<AgentSettings, 'serviceAccount'>>;

/** Where the pod's volume with the mesh's roots is mounted. */
export const DEFAULT_ROOTS_FILE = './var/run/secrets/mesh/root-cert.pem';

/** Throws CtlError invalid_argument for a provider that does not exist. */
export function checkProvider(provider: string): void {
  if (provider === 'SelfCA') return;
  const message = `${JSON.stringify(provider)} is not known: only SelfCA is, the authority of the control plane`;
  throw new CtlError('invalid_argument', message, { field: 'CA_PROVIDER' });
}
