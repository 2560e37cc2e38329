/** The settings of the workload's identity, and the file of the mesh's roots. */
import type { AgentSettings } from '../../settings/index.ts';

export type IdentitySettings = Pick<
  AgentSettings,
  | 'caAddress'
  | 'caProvider'
  | 'spiffeEndpointSocket'
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
  // Without a service account, or with an empty one, that of the token counts.
  Partial<Pick<AgentSettings, 'serviceAccount' | 'disableEnvoy'>>;

/** The mesh's roots in a volume of the pod. */
export const DEFAULT_ROOTS_FILE = './var/run/secrets/mesh/root-cert.pem';
