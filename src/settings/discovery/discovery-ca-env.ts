/** The environment variables of the certificate authority of ctl-discovery. */
import type { EnvTable } from '../env-table.ts';

export const discoveryCaEnv = {
  CA_SELF_SIGNED_CA_CERT_TTL: {
    setting: 'selfSignedCaLifetimeSeconds',
    type: 'duration',
    unit: 'seconds',
    default: '87600h0m0s',
    min: 1000,
    meaning: 'Lifetime of the self-signed CA root certificate.',
  },
  CA_SELF_SIGNED_CA_RSA_KEY_SIZE: {
    setting: 'selfSignedCaRsaBits',
    type: 'integer',
    default: 2048,
    min: 2048,
    unit: 'bits',
    meaning: 'RSA key size of self-signed CA certificates.',
  },
  CA_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL: {
    setting: 'rootCheckIntervalMs',
    type: 'duration',
    default: '1h0m0s',
    meaning:
      'Interval at which the self-signed CA checks its root certificate expiry and rotates it; zero or negative ' +
      'disables checking and rotation; values above 10 minutes are suggested.',
  },
  CA_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE: {
    setting: 'rootGracePercentile',
    type: 'integer',
    default: 20,
    min: 0,
    unit: 'percent',
    meaning:
      "Percentage of the self-signed root certificate's lifetime, before its expiry, in which the certificate is " +
      'rotated.',
  },
  CA_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR: {
    setting: 'rootCheckJitter',
    type: 'boolean',
    default: true,
    meaning:
      'Start the root certificate rotator after a random back-off shorter than the root certificate check interval.',
  },
  SELF_SIGNED_CA_DIR: {
    setting: 'selfSignedCaDir',
    type: 'string',
    default: './var/lib/mesh/ca',
    meaning:
      'Directory that keeps the self-signed CA: its keys (ca-state.json) and the trust bundle (root-cert.pem). Only ' +
      'one instance may use the directory.',
  },
  CTL_STATE_DIR: {
    setting: 'stateDir',
    type: 'string',
    default: './var/lib/mesh/state',
    meaning:
      'Directory for the last good version of each policy, which stays in force after a restart while the current ' +
      'version is invalid. Without a cluster, it also stores the machines that registered themselves and the ' +
      'hosts that sidecars have learned. Only one ' +
      'instance may use the directory.',
  },
  ROOT_CA_DIR: {
    setting: 'rootCaDir',
    type: 'string',
    default: './etc/cacerts',
    meaning: 'Location of a local or mounted CA root.',
  },
  DEFAULT_WORKLOAD_CERT_TTL: {
    setting: 'defaultWorkloadCertLifetimeSeconds',
    type: 'duration',
    unit: 'seconds',
    default: '24h0m0s',
    min: 1000,
    meaning: 'Lifetime of issued workload certificates, applied when the request sets a non-positive lifetime.',
  },
  MAX_WORKLOAD_CERT_TTL: {
    setting: 'maxWorkloadCertLifetimeSeconds',
    type: 'duration',
    unit: 'seconds',
    default: '2160h0m0s',
    min: 1000,
    meaning: 'Maximum lifetime of issued workload certificates.',
  },
} as const satisfies EnvTable;
