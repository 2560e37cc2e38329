import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentSettings, defaultAgentSettings } from '../../settings/index.ts';
import { planCredentials } from './plan.ts';

const plan = (settings: Partial<AgentSettings>, usesAuthority = true) =>
  planCredentials(defaultAgentSettings(settings), 'mesh.example', usesAuthority);

const METADATA = 'shop-1|1234567890|cluster-a|us-east1-b';
const ENDPOINT = 'https://sts.example/token';

test('without settings there is neither a metadata server nor an exchange', () => {
  assert.deepEqual(plan({}), {
    cloud: { platform: undefined, clusterUrl: undefined },
    metadataServer: undefined,
    exchange: undefined,
    authorityAudience: undefined,
    warnings: [],
  });
});

test('CLOUD_METADATA is the node metadata of Istio agents, and its cluster the identity provider', () => {
  const clusterUrl = 'https://container.googleapis.com/v1/projects/shop-1/locations/us-east1-b/clusters/cluster-a';
  const { cloud, exchange } = plan({ cloudMetadata: METADATA, stsPort: 1 });
  assert.deepEqual(cloud.platform, {
    gcp_project: 'shop-1',
    gcp_project_number: '1234567890',
    gcp_gke_cluster_name: 'cluster-a',
    gcp_location: 'us-east1-b',
    gcp_gke_cluster_url: clusterUrl,
  });
  assert.equal(exchange?.endpoint.href, 'https://sts.googleapis.com/v1/token');
  assert.equal(exchange?.audience, `identitynamespace:mesh.example:${clusterUrl}`);
  const named = plan({ cloudMetadata: 'shop-1|||', cloudClusterUrl: 'https://clusters.example/a', stsPort: 1 });
  assert.deepEqual(named.cloud.platform, {
    gcp_project: 'shop-1',
    gcp_gke_cluster_url: 'https://clusters.example/a',
  });
  assert.equal(named.exchange?.audience, 'identitynamespace:mesh.example:https://clusters.example/a');
});

test('tokens of a metadata server have the trust domain as audience, and its platform as identity provider', () => {
  for (const credentialFetcherType of ['CloudComputeEngine', 'GoogleComputeEngine']) {
    const settings = { credentialFetcherType, cloudMetadata: METADATA, plugins: 'CloudTokenExchange' };
    const { metadataServer, authorityAudience } = plan(settings);
    assert.equal(metadataServer?.audience, 'mesh.example');
    assert.equal(metadataServer.url.href, 'http://169.254.169.254/');
    assert.equal(authorityAudience, 'identitynamespace:mesh.example:GoogleComputeEngine');
  }
});

test('outside a cloud a token for the authority is exchanged with the trust domain as audience', () => {
  const settings = { plugins: ' GoogleTokenExchange ,', tokenExchangeEndpoint: ENDPOINT };
  assert.equal(plan(settings).authorityAudience, 'mesh.example');
  assert.equal(plan(settings).exchange?.scope, '');
});

test('a plain text endpoint of this machine is accepted', () => {
  for (const host of ['localhost', '127.0.0.1:8080', '[::1]'])
    plan({ stsPort: 1, tokenExchangeEndpoint: `http://${host}/token`, accessTokenEndpoint: `http://${host}/x` });
});

test('settings that have no effect are reported', () => {
  const settings = { credentialFetcherType: 'CloudComputeEngine', plugins: 'CloudTokenExchange' };
  assert.deepEqual(plan({ ...settings, tokenExchangeEndpoint: ENDPOINT }, false).warnings, [
    'CREDENTIAL_FETCHER_TYPE has no effect: no token is sent to a certificate authority',
    'PLUGINS has no effect: no token is sent to a certificate authority',
  ]);
  assert.deepEqual(plan({ tokenExchangeEndpoint: ENDPOINT }).warnings, [
    'TOKEN_EXCHANGE_ENDPOINT has no effect without --stsPort or PLUGINS',
  ]);
});

const REFUSED: Readonly<Record<string, readonly [settings: Partial<AgentSettings>, message: RegExp]>> = {
  'three parts of metadata': [
    { cloudMetadata: 'a|1|c' },
    /"a\|1\|c" of variable CLOUD_METADATA: not four parts: <project/,
  ],
  'five parts of metadata': [{ cloudMetadata: 'a|1|c|d|e' }, /CLOUD_METADATA: not four parts/],
  'no project': [{ cloudMetadata: '|1|c|d' }, /CLOUD_METADATA: no project_id/],
  'a number that is none': [{ cloudMetadata: 'a|b|c|d' }, /CLOUD_METADATA: project_number is not a number/],
  'a part with a slash': [{ cloudMetadata: 'a|1|c/d|e' }, /CLOUD_METADATA: a part is not a name/],
  'a cluster URL without scheme': [{ cloudClusterUrl: 'clusters.example' }, /CLOUD_CLUSTER_URL: not a URL/],
  'an unknown fetcher': [{ credentialFetcherType: 'Mock' }, /"Mock" of variable CREDENTIAL_FETCHER_TYPE: only Cloud/],
  'a metadata host with a path': [
    { credentialFetcherType: 'CloudComputeEngine', cloudMetadataHost: 'a/b' },
    /CLOUD_METADATA_HOST: not an address/,
  ],
  'a metadata port beyond all ports': [
    { credentialFetcherType: 'CloudComputeEngine', cloudMetadataHost: 'a:99999' },
    /CLOUD_METADATA_HOST: not an address/,
  ],
  'an unknown plugin': [{ plugins: 'Other' }, /"Other" of variable PLUGINS: only CloudTokenExchange is supported/],
  'two plugins': [{ plugins: 'CloudTokenExchange,GoogleTokenExchange' }, /PLUGINS: more than one plugin/],
  '--stsPort without an endpoint': [{ stsPort: 1 }, /^--stsPort needs a token endpoint: set TOKEN_EXCHANGE_ENDPOINT/],
  'PLUGINS without an endpoint': [{ plugins: 'CloudTokenExchange' }, /^PLUGINS needs a token endpoint/],
  'an endpoint that is no URL': [{ stsPort: 1, tokenExchangeEndpoint: 'x' }, /TOKEN_EXCHANGE_ENDPOINT: not a URL/],
  'a plain text endpoint': [
    { stsPort: 1, tokenExchangeEndpoint: 'http://sts.example/token?k=s3cret' },
    /TOKEN_EXCHANGE_ENDPOINT: not an https URL/,
  ],
  'an endpoint with a password': [
    { stsPort: 1, tokenExchangeEndpoint: 'https://a:s3cret@sts.example/' },
    /TOKEN_EXCHANGE_ENDPOINT: must not contain a user name or password/,
  ],
  'a plain text endpoint of access tokens': [
    { stsPort: 1, tokenExchangeEndpoint: ENDPOINT, accessTokenEndpoint: 'http://iam.example' },
    /ACCESS_TOKEN_ENDPOINT: not an https URL/,
  ],
};

for (const [name, [settings, message]] of Object.entries(REFUSED))
  test(`${name}: one line names the variable`, () => {
    assert.throws(
      () => plan(settings),
      (error: Error) => {
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /s3cret|\n/);
        return true;
      },
    );
  });
