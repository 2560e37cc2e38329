/**
 * The environment variables of `ctl-agent proxy` for the workload's key, certificates and token. CA_ROOT_CA and
 * CA_TOKEN_FILE are for a mesh without a cluster, which keeps these files elsewhere. SPIFFE_ENDPOINT_SOCKET is a
 * variable of the SPIFFE standards.
 */
import type { EnvTable } from '../env-table.ts';

export const agentIdentityEnv = {
  // The certificate authority, and how the workload authenticates to it.
  CA_ADDR: {
    setting: 'caAddress',
    type: 'string',
    default: '',
    meaning: 'Address of the SPIFFE certificate provider; when empty the discovery address is used.',
  },
  CA_PROVIDER: {
    setting: 'caProvider',
    type: 'string',
    default: 'SelfCA',
    meaning: 'Name of the authentication provider: SelfCA, Istio, GoogleCA (alias MeshCA) or SPIFFE.',
  },
  SPIFFE_ENDPOINT_SOCKET: {
    setting: 'spiffeEndpointSocket',
    type: 'string',
    default: '',
    meaning:
      'Address of the SPIFFE Workload API for CA_PROVIDER=SPIFFE without CA_ADDR, such as unix:///run/agent.sock.',
  },
  CA_ROOT_CA: {
    setting: 'caRootsFile',
    type: 'string',
    default: '',
    meaning: 'PEM file with the roots that verify the control plane; else ./var/run/secrets/mesh/root-cert.pem.',
  },
  JWT_POLICY: {
    setting: 'jwtPolicy',
    type: 'string',
    default: 'third-party-jwt',
    meaning:
      'The JWT validation policy: third-party-jwt reads the token from ./var/run/secrets/tokens/mesh-token, ' +
      'first-party-jwt from ./var/run/secrets/orchestrator.io/serviceaccount/token.',
  },
  CA_TOKEN_FILE: {
    setting: 'caTokenFile',
    type: 'string',
    default: '',
    meaning: 'File of the token; takes precedence over the one of JWT_POLICY.',
  },
  USE_TOKEN_FOR_CSR: {
    setting: 'useTokenForCsr',
    type: 'boolean',
    default: false,
    meaning: 'When true, certificate signing requests must carry a token.',
  },
  SKIP_PARSE_TOKEN: {
    setting: 'skipParseToken',
    type: 'boolean',
    default: false,
    meaning:
      'Skip parsing the token for information such as expiry (for example on VMs where no token rotates certificates).',
  },
  PROV_CERT: {
    setting: 'provCert',
    type: 'string',
    default: '',
    meaning: 'Directory containing provisioned certificates, for VMs.',
  },

  // Key and certificate.
  ECC_SIGNATURE_ALGORITHM: {
    setting: 'eccSignatureAlgorithm',
    type: 'string',
    default: '',
    meaning: 'ECC signature algorithm used when generating private keys.',
  },
  PKCS8_KEY: { setting: 'pkcs8Key', type: 'boolean', default: false, meaning: 'Generate PKCS#8 private keys.' },
  SECRET_TTL: {
    setting: 'secretLifetimeSeconds',
    type: 'duration',
    unit: 'seconds',
    default: '24h0m0s',
    min: 0,
    meaning: 'Certificate lifetime requested by the agent.',
  },
  SECRET_GRACE_PERIOD_RATIO: {
    setting: 'secretGracePeriodRatio',
    type: 'float',
    default: 0.5,
    min: 0,
    max: 1,
    meaning: 'Grace period ratio for certificate rotation.',
  },
  SECRET_ROTATION_CHECK_INTERVAL: {
    setting: 'secretRotationCheckIntervalMs',
    type: 'duration',
    default: '5m0s',
    min: 100,
    meaning: 'Interval at which certificates are checked for rotation.',
  },
  INITIAL_BACKOFF_MSEC: {
    setting: 'initialBackoffMs',
    type: 'integer',
    default: 0,
    min: 0,
    unit: 'ms',
    meaning: 'First delay before a failed certificate request is retried, ms; 0 is half a second.',
  },

  // Certificates in files.
  OUTPUT_CERTS: {
    setting: 'outputCerts',
    type: 'string',
    default: '',
    meaning:
      'Output directory for key and certificate; when empty they are not saved. Must be set for VMs using ' +
      'provisioned certificates.',
  },
  FILE_MOUNTED_CERTS: {
    setting: 'fileMountedCerts',
    type: 'boolean',
    default: false,
    meaning: 'Serve cert-chain.pem, key.pem and root-cert.pem of /etc/certs instead of asking an authority.',
  },
  STALED_CONNECTION_RECYCLE_RUN_INTERVAL: {
    setting: 'staleConnectionIntervalMs',
    type: 'duration',
    default: '5m0s',
    min: 0,
    meaning: 'Interval at which stale connections are detected and closed.',
  },
} as const satisfies EnvTable;
