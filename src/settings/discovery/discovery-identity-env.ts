/** The environment variables of ctl-discovery for authentication of its callers and for its own certificate. */

import type { EnvTable } from '../env-table.ts';

export const discoveryIdentityEnv = {
  ENABLE_CA_SERVER: {
    setting: 'enableCaServer',
    type: 'boolean',
    default: true,
    meaning: 'When false no CA server is created in the control plane.',
  },
  XDS_AUTH: {
    setting: 'xdsAuth',
    type: 'boolean',
    default: true,
    meaning: 'When true, XDS clients are authenticated.',
  },
  CTL_DEBUG_AUTH: {
    setting: 'debugAuth',
    type: 'boolean',
    default: true,
    meaning:
      'When true, pages under /debug are served to callers with a token of the root namespace (everything), callers ' +
      'with a token of another namespace (what belongs to that namespace), and requests from this machine to ' +
      'localhost (everything). When false, everyone who reaches the address sees everything except profiles, eventsz ' +
      'and diffz.',
  },
  CTL_CONFIG_READERS: {
    setting: 'configReaders',
    type: 'string',
    default: '',
    meaning:
      'Identities that may read all documents over MCP and xDS, besides the service account ctl-discovery of the ' +
      'root namespace and of the namespace of the program: SPIFFE IDs, or NAMESPACE/ACCOUNT, separated by commas.',
  },
  CTL_DEBUG_TOKEN_FILE: {
    setting: 'debugTokenFile',
    type: 'string',
    default: '',
    meaning: 'File with the bearer token that the `request` and `get` commands send. When unset, they send no token.',
  },
  TOKEN_ISSUER: {
    setting: 'tokenIssuer',
    type: 'string',
    default: '',
    meaning: 'OIDC token issuer; when set it is used to check tokens.',
  },
  AUDIENCE: {
    setting: 'audience',
    type: 'string',
    default: '',
    meaning: 'Expected audience in tokens. When empty: mesh-ca, istio-ca or the trust domain.',
  },
  CENTRAL_MESHD: {
    setting: 'centralMeshd',
    type: 'boolean',
    default: false,
    meaning:
      'When true one control-plane instance also controls remote clusters and is their CA: tokens of other clusters ' +
      '(--clusterRegistriesNamespace) are reviewed by the API servers of these clusters.',
  },
  JWT_POLICY: {
    setting: 'jwtPolicy',
    type: 'string',
    default: 'third-party-jwt',
    meaning:
      'The JWT validation policy: third-party-jwt (the audience must match) or first-party-jwt (tokens without any ' +
      'audience, and tokens whose audience is the API server of the cluster that ctl-discovery watches, are also ' +
      'accepted).',
  },
  LOCAL_TOKEN_ISSUER_DIR: {
    setting: 'localTokenIssuerDir',
    type: 'string',
    default: '',
    meaning:
      'Directory of a local issuer of workload tokens (ctl-discovery issue-token); its public key (jwks.json) is ' +
      'trusted when this is set.',
  },
  SPIFFE_BUNDLE_ENDPOINTS: {
    setting: 'spiffeBundleEndpoints',
    type: 'string',
    default: '',
    meaning:
      'Trust-domain to bundle-endpoint mappings; the root certificate is fetched from each endpoint (which must ' +
      'follow the SPIFFE bundle endpoint standard) to verify client certificates of that domain. Tuples are ' +
      'separated by `||`, the domain and endpoint in a tuple by `|`: ' +
      '`<trust_domain>|<endpoint_url>||<trust_domain>|<endpoint_url>`. Not needed for roots issued by the control ' +
      'plane or web-PKI roots.',
  },
  MESHD_CUSTOM_HOST: {
    setting: 'meshdCustomHost',
    type: 'string',
    default: '',
    meaning: 'Comma-separated custom host names of the control plane, to include in its server certificate.',
  },
  CTL_CERT_PROVIDER: {
    setting: 'certProvider',
    type: 'string',
    default: 'meshd',
    meaning:
      "Provider of the discovery component's DNS certificate: meshd (its own CA), orchestrator/<signer name> (a " +
      'signer of the cluster, CertificateSigningRequest API), or none (only the files of --tlsCertFile and ' +
      '--tlsKeyFile are used).',
  },
  CTL_JWT_PUB_KEY_REFRESH_INTERVAL: {
    setting: 'jwtPubKeyRefreshIntervalMs',
    type: 'duration',
    default: '20m0s',
    min: 1000,
    meaning:
      'How often the key sets that RequestAuthentications name are fetched; a new key of a key server is picked ' +
      'up within that time.',
  },
} as const satisfies EnvTable;
