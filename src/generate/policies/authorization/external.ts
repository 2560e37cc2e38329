/**
 * CUSTOM: an external authorizer, named in the mesh configuration, is called for requests that a rule matches. An RBAC
 * filter that allows everything marks those requests, and the next filter calls the authorizer for marked requests.
 * Each authorizer has its own pair of filters, so that a request may match rules with different authorizers, all of
 * which have to allow it.
 *
 * An unavailable authorizer (not in the mesh configuration, not a service that the proxy can see, or one that supports
 * only HTTP while the traffic is TCP) denies all requests that its rules match.
 */
import { canonicalHost, type ServicePort } from '../../../model/index.ts';
import { envoy } from '../../../protobuf/index.ts';
import type { ExtensionProvider, MeshConfig } from '../../../resources/index.ts';
import { API_VERSION_V3, clusterName, toDuration } from '../../common/index.ts';
import { typedConfig } from '../../filters/index.ts';
import type { MeshReader, ScopeReader } from '../../reads/index.ts';
import type { HttpFilter, NetworkFilter } from '../types.ts';
import { markedBy, markFilter } from './rbac.ts';
import type { NamedPolicies } from './rules.ts';
import { parsePattern, type StringMatcher, stringMatcher } from './text.ts';

const { ExtAuthz: HttpExtAuthz } = envoy.extensions.filters.http.ext_authz.v3;
const { ExtAuthz: NetworkExtAuthz } = envoy.extensions.filters.network.ext_authz.v3;
const { StatusCode } = envoy.type.v3;

const HTTP_EXT_AUTHZ = 'envoy.filters.http.ext_authz';
const NETWORK_EXT_AUTHZ = 'envoy.filters.network.ext_authz';
/** As in Istio: without a limit, because only the authorizer knows how long it needs. */
const DEFAULT_TIMEOUT_MS = 600_000;

type Http = NonNullable<ExtensionProvider['envoyExtAuthzHttp']>;
type Grpc = NonNullable<ExtensionProvider['envoyExtAuthzGrpc']>;
type ListStringMatcher = envoy.type.matcher.v3.ListStringMatcher.Input;

export interface Authorizer {
  readonly name: string;
  readonly host: string;
  readonly cluster: string;
  readonly via: { readonly http: Http } | { readonly grpc: Grpc };
}

/** An unavailable authorizer, and the reason. */
export interface Unreachable {
  readonly problem: string;
}

export function authorizerOf(
  { mesh }: MeshReader,
  scope: ScopeReader | undefined,
  name: string,
): Authorizer | Unreachable {
  const [provider, second] = mesh.extensionProviders.filter((each) => each.name === name);
  if (provider === undefined) return { problem: `the mesh configuration has no extension provider ${name}` };
  if (second !== undefined) return { problem: `the mesh configuration has more than one extension provider ${name}` };
  const { envoyExtAuthzGrpc: grpc, envoyExtAuthzHttp: http } = provider;
  const config = grpc ?? http;
  if (config === undefined || (grpc !== undefined && http !== undefined)) {
    return { problem: `extension provider ${name} must be exactly one kind of external authorizer` };
  }
  const { host, namespace } = hostOf(config);
  const service = scope?.services.get(host);
  if (service === undefined || (namespace !== undefined && service.namespace !== namespace)) {
    return { problem: `extension provider ${name}: the proxy sees no service ${config.service}` };
  }
  if (!service.ports.some((port) => port.port === config.port && isStream(port))) {
    return { problem: `extension provider ${name}: service ${config.service} has no port ${config.port}` };
  }
  const cluster = clusterName('outbound', config.port, '', host);
  return { name, host, cluster, via: grpc === undefined ? { http: config as Http } : { grpc } };
}

/** The host of a provider, whether or not there is such a service. */
export function providerHosts(mesh: MeshConfig, name: string): string[] {
  return mesh.extensionProviders
    .filter((each) => each.name === name)
    .flatMap(({ envoyExtAuthzGrpc, envoyExtAuthzHttp }) => {
      const config = envoyExtAuthzGrpc ?? envoyExtAuthzHttp;
      return config === undefined ? [] : [hostOf(config).host];
    });
}

function hostOf({ service }: Grpc | Http): { readonly host: string; readonly namespace: string | undefined } {
  const slash = service.indexOf('/');
  const host = canonicalHost(service.slice(slash + 1));
  return { host, namespace: slash < 0 ? undefined : service.slice(0, slash) };
}

function isStream({ protocol }: ServicePort): boolean {
  return protocol !== 'UDP';
}

/** Calls the authorizer for requests that one of the policies matches. */
export function requestFilters(authorizer: Authorizer, policies: NamedPolicies): HttpFilter[] {
  const prefix = prefixOf(authorizer);
  const { via, cluster, host } = authorizer;
  const config = 'grpc' in via ? via.grpc : via.http;
  return [
    markFilter('http', policies, prefix),
    typedConfig(HTTP_EXT_AUTHZ, HttpExtAuthz, {
      ...('grpc' in via ? { grpcService: grpcService(via.grpc, cluster, host) } : httpService(via.http, cluster, host)),
      transportApiVersion: API_VERSION_V3,
      filterEnabledMetadata: markedBy('http', prefix),
      failureModeAllow: config.failOpen,
      clearRouteCache: config.clearRouteCache,
      ...statusOnError(config.statusOnError),
      ...requestBody(config),
      statPrefix: prefix,
    }),
  ];
}

/** Calls the authorizer for connections; undefined if it only supports requests. */
export function connectionFilters(authorizer: Authorizer, policies: NamedPolicies): NetworkFilter[] | undefined {
  const { via, cluster, host } = authorizer;
  if (!('grpc' in via)) return undefined;
  const prefix = prefixOf(authorizer);
  return [
    markFilter('tcp', policies, prefix),
    typedConfig(NETWORK_EXT_AUTHZ, NetworkExtAuthz, {
      statPrefix: `tcp.${prefix}`,
      grpcService: grpcService(via.grpc, cluster, host),
      transportApiVersion: API_VERSION_V3,
      filterEnabledMetadata: markedBy('tcp', prefix),
      failureModeAllow: via.grpc.failOpen,
    }),
  ];
}

/** Prefix of metadata and counters about an authorizer. */
function prefixOf({ name }: Authorizer): string {
  return `mesh_ext_authz_${name}_`;
}

function grpcService({ timeout }: Grpc, cluster: string, host: string): envoy.config.core.v3.GrpcService.Input {
  // Envoy's default, the name of the cluster, is not a valid authority.
  return { envoyGrpc: { clusterName: cluster, authority: host }, timeout: toDuration(timeout ?? DEFAULT_TIMEOUT_MS) };
}

function httpService(
  config: Http,
  cluster: string,
  host: string,
): Pick<envoy.extensions.filters.http.ext_authz.v3.ExtAuthz.Input, 'httpService' | 'allowedHeaders'> {
  const additional = Object.entries(config.includeAdditionalHeadersInCheck);
  const toUpstream = headerList(config.headersToUpstreamOnAllow);
  const onDeny = headerList(config.headersToDownstreamOnDeny);
  const onAllow = headerList(config.headersToDownstreamOnAllow);
  const included = [...config.includeRequestHeadersInCheck, ...config.includeHeadersInCheck];
  return {
    httpService: {
      serverUri: {
        uri: `http://${host}:${config.port}`,
        cluster,
        timeout: toDuration(config.timeout ?? DEFAULT_TIMEOUT_MS),
      },
      pathPrefix: config.pathPrefix,
      ...(additional.length > 0 && {
        authorizationRequest: { headersToAdd: additional.map(([key, value]) => ({ key, value })) },
      }),
      ...((toUpstream ?? onDeny ?? onAllow) !== undefined && {
        authorizationResponse: {
          ...(toUpstream !== undefined && { allowedUpstreamHeaders: toUpstream }),
          ...(onDeny !== undefined && { allowedClientHeaders: onDeny }),
          ...(onAllow !== undefined && { allowedClientHeadersOnSuccess: onAllow }),
        },
      }),
    },
    ...(included.length > 0 && { allowedHeaders: headerList(included) }),
  };
}

/** Names of headers, which are exact, prefixes or suffixes, case-insensitive. */
function headerList(names: readonly string[]): ListStringMatcher | undefined {
  if (names.length === 0) return undefined;
  return {
    patterns: names.map((name): StringMatcher => {
      const pattern = parsePattern(name);
      return pattern.kind === 'any' ? { safeRegex: { regex: '.*' } } : stringMatcher(pattern, true);
    }),
  };
}

const STATUS_CODES = Object.values(StatusCode).filter((code) => Number(code) >= 100);

/** Envoy refuses a status that HTTP does not define; 403 is its default. */
function statusOnError(text: string | undefined): { readonly statusOnError?: envoy.type.v3.HttpStatus.Input } {
  const code = STATUS_CODES.find((known) => String(known) === text);
  return code === undefined ? {} : { statusOnError: { code } };
}

function requestBody({ includeRequestBodyInCheck: body }: Grpc | Http) {
  if (body === undefined || body.maxRequestBytes === 0) return {};
  const { maxRequestBytes, allowPartialMessage, packAsBytes } = body;
  return { withRequestBody: { maxRequestBytes, allowPartialMessage, packAsBytes } };
}
