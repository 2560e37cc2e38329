/** The settings of the workload's identity, and checks of them before anything is started. */
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
  // Empty or left out: that of the token.
  Partial<Pick<AgentSettings, 'serviceAccount'>>;

/** The mesh's roots in a volume of the pod. */
export const DEFAULT_ROOTS_FILE = './var/run/secrets/mesh/root-cert.pem';

/** Throws CtlError invalid_argument for an unknown provider. */
export function checkProvider(provider: string): void {
  if (provider === 'SelfCA') return;
  const message = `${JSON.stringify(provider)} is not known: only SelfCA is, the authority of the control plane`;
  throw new CtlError('invalid_argument', message, { field: 'CA_PROVIDER' });
}
