/**
 * The environment variables of `ctl-agent proxy` for the cloud of the workload and for token exchange. The last group
 * sets the servers, which other agents have built in.
 */
import type { EnvTable } from '../env-table.ts';

export const agentCredentialsEnv = {
  CREDENTIAL_FETCHER_TYPE: {
    setting: 'credentialFetcherType',
    type: 'string',
    default: '',
    meaning: 'Credential fetcher type; supported: CloudComputeEngine.',
  },
  PLUGINS: { setting: 'plugins', type: 'string', default: '', meaning: 'Token exchange plugins.' },
  CLOUD_METADATA: {
    setting: 'cloudMetadata',
    type: 'string',
    default: '',
    meaning:
      'Pipe-separated cloud metadata of the shape `<project_id>|<project_number>|<cluster_name>|<cluster_zone>`.',
  },
  CLOUD_CLUSTER_URL: {
    setting: 'cloudClusterUrl',
    type: 'string',
    default: '',
    meaning: 'URL of the hosted cluster.',
  },

  // Names of servers.
  CLOUD_METADATA_HOST: {
    setting: 'cloudMetadataHost',
    type: 'string',
    default: '169.254.169.254',
    meaning: 'Metadata server of CREDENTIAL_FETCHER_TYPE, host or host:port.',
  },
  TOKEN_EXCHANGE_ENDPOINT: {
    setting: 'tokenExchangeEndpoint',
    type: 'string',
    default: '',
    meaning:
      'Token exchange endpoint (RFC 8693) that --stsPort and PLUGINS use; when empty, the endpoint of the cloud in ' +
      'CLOUD_METADATA.',
  },
  TOKEN_EXCHANGE_CLIENT_FILE: {
    setting: 'tokenExchangeClientFile',
    type: 'string',
    default: '',
    meaning: 'File with the client ID for TOKEN_EXCHANGE_ENDPOINT, or with `id:secret`; when empty none is sent.',
  },
  ACCESS_TOKEN_ENDPOINT: {
    setting: 'accessTokenEndpoint',
    type: 'string',
    default: '',
    meaning:
      'URL that issues the access token of a service account for an exchanged token (generateAccessToken); when ' +
      'empty --stsPort returns the exchanged token.',
  },
} as const satisfies EnvTable;
