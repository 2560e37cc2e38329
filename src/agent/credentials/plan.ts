/** Checks the settings of credentials before anything is started. Loaded by every agent, so it imports little. */
import { CtlError } from '../../core/errors.ts';
import type { AgentSettings } from '../../settings/index.ts';
import { type Cloud, parseCloud } from './cloud.ts';
import { serviceUrl } from './service-url.ts';

/** The metadata server of a cloud, whose identity tokens replace the token file. */
export interface MetadataServer {
  readonly url: URL;
  /** Audience of the identity tokens. */
  readonly audience: string;
}

export interface ExchangePlan {
  /** Token endpoint (RFC 8693). */
  readonly endpoint: URL;
  /** File with `id` or `id:secret` of this client; undefined for none. */
  readonly clientFile: string | undefined;
  /** Issues the access token of a service account for the exchanged token; undefined: the exchanged one is used. */
  readonly accessTokenEndpoint: URL | undefined;
  /** Audience of requests that do not name one; when empty, none is sent. */
  readonly audience: string;
  /** Scope of requests that do not name one; when empty, none is sent. */
  readonly scope: string;
}

export interface CredentialsPlan {
  readonly cloud: Cloud;
  /** Undefined when the token is read from a file. */
  readonly metadataServer: MetadataServer | undefined;
  /** Undefined when no tokens are exchanged. */
  readonly exchange: ExchangePlan | undefined;
  /**
   * The audience of the exchanged token that is sent to the authority (PLUGINS); undefined if the token is not
   * exchanged.
   */
  readonly authorityAudience: string | undefined;
  /** Settings without effect, one line each. */
  readonly warnings: readonly string[];
}

export type CredentialsSettings = Pick<
  AgentSettings,
  | 'accessTokenEndpoint'
  | 'cloudClusterUrl'
  | 'cloudMetadata'
  | 'cloudMetadataHost'
  | 'credentialFetcherType'
  | 'plugins'
  | 'stsPort'
  | 'tokenExchangeClientFile'
  | 'tokenExchangeEndpoint'
>;

/** Names of the metadata server's platform: the one of ctl-agent, and the one of Istio's agents. */
const FETCHERS: readonly string[] = ['CloudComputeEngine', 'GoogleComputeEngine'];
const PLUGINS: readonly string[] = ['CloudTokenExchange', 'GoogleTokenExchange'];

/** The name of the metadata server as a provider in the cloud's token service. */
const METADATA_PROVIDER = 'GoogleComputeEngine';
/** The token endpoint of the cloud of CLOUD_METADATA. */
const CLOUD_ENDPOINT = 'https://sts.googleapis.com/v1/token';
/** That endpoint requires a scope. */
const CLOUD_SCOPE = 'https://www.googleapis.com/auth/cloud-platform';

/**
 * Throws CtlError invalid_argument that names a malformed or missing variable.
 *
 * @param usesAuthority whether the workload requests certificates, and so needs a token
 */
export function planCredentials(
  settings: CredentialsSettings,
  trustDomain: string,
  usesAuthority: boolean,
): CredentialsPlan {
  const cloud = parseCloud(settings);
  const metadataServer = metadataServerOf(settings, trustDomain);
  const forAuthority = parsePlugin(settings.plugins) !== undefined;
  const provider = metadataServer === undefined ? cloud.clusterUrl : METADATA_PROVIDER;
  const audience = provider === undefined ? '' : `identitynamespace:${trustDomain}:${provider}`;
  const user = settings.stsPort > 0 ? '--stsPort' : forAuthority ? 'PLUGINS' : undefined;
  return {
    cloud,
    metadataServer,
    exchange: user === undefined ? undefined : exchangePlan(settings, audience, user),
    // Outside a cloud, the authority of the mesh accepts its trust domain as audience.
    authorityAudience: forAuthority ? audience || trustDomain : undefined,
    warnings: [
      ...(usesAuthority ? [] : unusedByAuthority(settings)),
      ...(user === undefined ? unusedUrls(settings) : []),
    ],
  };
}

function unusedByAuthority({ credentialFetcherType, plugins }: CredentialsSettings): readonly string[] {
  const given = { CREDENTIAL_FETCHER_TYPE: credentialFetcherType, PLUGINS: plugins };
  return Object.entries(given)
    .filter(([, value]) => value !== '')
    .map(([name]) => `${name} has no effect: no token is sent to a certificate authority`);
}

function unusedUrls(settings: CredentialsSettings): readonly string[] {
  const given = {
    TOKEN_EXCHANGE_ENDPOINT: settings.tokenExchangeEndpoint,
    TOKEN_EXCHANGE_CLIENT_FILE: settings.tokenExchangeClientFile,
    ACCESS_TOKEN_ENDPOINT: settings.accessTokenEndpoint,
  };
  return Object.entries(given)
    .filter(([, value]) => value !== '')
    .map(([name]) => `${name} has no effect without --stsPort or PLUGINS`);
}

function metadataServerOf(settings: CredentialsSettings, audience: string): MetadataServer | undefined {
  const { credentialFetcherType: type, cloudMetadataHost: host } = settings;
  if (type === '') return undefined;
  if (!FETCHERS.includes(type)) throw invalid('CREDENTIAL_FETCHER_TYPE', type, 'only CloudComputeEngine is supported');
  const url = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/.test(host) ? URL.parse(`http://${host}`) : null;
  if (url === null) throw invalid('CLOUD_METADATA_HOST', host, 'not an address such as 169.254.169.254 or host:port');
  return { url, audience };
}

function parsePlugin(text: string): string | undefined {
  const names = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]));
  const unknown = names.find((name) => !PLUGINS.includes(name));
  if (unknown !== undefined) throw invalid('PLUGINS', text, 'only CloudTokenExchange is supported');
  if (names.length > 1) throw invalid('PLUGINS', text, 'more than one plugin');
  return names[0];
}

function exchangePlan(settings: CredentialsSettings, audience: string, user: string): ExchangePlan {
  const { tokenExchangeEndpoint, accessTokenEndpoint, cloudMetadata, tokenExchangeClientFile } = settings;
  if (tokenExchangeEndpoint === '' && cloudMetadata === '') {
    const message = `${user} needs a token endpoint: set TOKEN_EXCHANGE_ENDPOINT, or CLOUD_METADATA in a cloud`;
    throw new CtlError('invalid_argument', message);
  }
  const ofCloud = tokenExchangeEndpoint === '';
  return {
    endpoint: serviceUrl(ofCloud ? CLOUD_ENDPOINT : tokenExchangeEndpoint, 'TOKEN_EXCHANGE_ENDPOINT'),
    clientFile: tokenExchangeClientFile === '' ? undefined : tokenExchangeClientFile,
    accessTokenEndpoint:
      accessTokenEndpoint === '' ? undefined : serviceUrl(accessTokenEndpoint, 'ACCESS_TOKEN_ENDPOINT'),
    audience,
    // The second step also needs a scope.
    scope: ofCloud || accessTokenEndpoint !== '' ? CLOUD_SCOPE : '',
  };
}

function invalid(variable: string, value: string, what: string): CtlError {
  const shown = JSON.stringify(value.slice(0, 200));
  return new CtlError('invalid_argument', `invalid value ${shown} of variable ${variable}: ${what}`);
}
