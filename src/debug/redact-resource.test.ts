/**
 * No page shows a secret of a resource. Every field that a schema marks as secret is tested. Every other field with a
 * text must be in the list `PLAIN` below, so that a new field is reviewed.
 */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import type { z } from 'zod';
import { coreOf, parseResource, SCHEMAS, type SecretField, secretFieldOf } from '../resources/index.ts';
import { ALL_KINDS, type Kind } from '../resources/kinds/types.ts';
import { redactContent } from './redact-resource.ts';

const SENTINEL = 'Sup3rS3cret';

/** Values with a sentinel at the secret part of a marked field. */
const SAMPLES: Readonly<Record<SecretField, readonly unknown[]>> = {
  value: [SENTINEL, { any: SENTINEL }],
  url: [
    `https://user:${SENTINEL}@issuer.example/keys`,
    `https://issuer.example/keys?key=${SENTINEL}#x`,
    `https:\\\\${SENTINEL}@issuer.example`,
  ],
  keySet: [
    JSON.stringify({ keys: [{ kty: 'oct', k: SENTINEL }] }),
    JSON.stringify({ keys: [{ kty: 'EC', crv: 'P-256', x: 'a', y: 'b', d: SENTINEL }] }),
    `no JSON ${SENTINEL}`,
  ],
  byName: [
    { Authorization: `Bearer ${SENTINEL}` },
    { cookie: SENTINEL, 'x-api-key': { exact: SENTINEL }, 'x-auth-token': { prefix: SENTINEL } },
    { access_token: { regex: SENTINEL } },
  ],
  condition: [
    { key: 'request.headers[authorization]', values: [SENTINEL] },
    { key: 'request.headers[X-Api-Key]', notValues: [SENTINEL] },
  ],
  envoyPatch: [
    patch('HTTP_ROUTE', { request_headers_to_add: [{ header: { key: 'authorization', value: SENTINEL } }] }),
    patch('HTTP_ROUTE', { requestHeadersToAdd: [{ header: { key: 'cookie', rawValue: SENTINEL } }] }),
    patch('HTTP_ROUTE', { match: { headers: [{ name: 'x-token', string_match: { exact: SENTINEL } }] } }),
    patch('HTTP_ROUTE', {
      metadata: { filter_metadata: { any: { password: SENTINEL, list: [{ token: SENTINEL }] } } },
    }),
    patch('CLUSTER', { no_such_field: SENTINEL }),
    patch('CLUSTER', { name: { of: SENTINEL } }),
    patch('NO_SUCH_MESSAGE', { name: SENTINEL }),
    patch('CLUSTER', {
      transport_socket: {
        typed_config: {
          '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
          common_tls_context: {
            tls_certificates: [{ private_key: { inline_string: SENTINEL }, password: { inline_bytes: SENTINEL } }],
          },
        },
      },
    }),
    patch('HTTP_FILTER', { typed_config: { '@type': 'type.googleapis.com/not.compiled.Filter', plain: SENTINEL } }),
    patch('HTTP_FILTER', { typed_config: { plain: SENTINEL } }),
    patch('HTTP_FILTER', {
      typed_config: {
        '@type': 'type.googleapis.com/xds.type.v3.TypedStruct',
        type_url: 'type.googleapis.com/not.compiled.Filter',
        value: { plain: SENTINEL },
      },
    }),
    patch('HTTP_FILTER', {
      typed_config: {
        '@type': 'type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication',
        providers: {
          one: { local_jwks: { inline_string: JSON.stringify({ keys: [{ kty: 'oct', k: SENTINEL }] }) } },
        },
      },
    }),
    { applyTo: 'CLUSTER', match: { proxy: { metadata: { MESH_TOKEN: SENTINEL } } }, patch: { operation: 'REMOVE' } },
  ],
};

function patch(applyTo: string, value: object): object {
  return { applyTo, patch: { operation: 'MERGE', value } };
}

interface Field {
  /** `http[].headers.request.set` */
  readonly path: string;
  readonly mark: SecretField | undefined;
  /** A content in which nothing but this field is given. */
  readonly around: (value: unknown) => unknown;
}

/** Every marked field, and every other field with a text. */
function fieldsOf(schema: z.core.$ZodType, path: string, around: Field['around']): Field[] {
  const core = coreOf(schema);
  const mark = secretFieldOf(core);
  if (mark !== undefined) return [{ path, mark, around }];
  const { def } = core._zod;
  switch (def.type) {
    case 'object':
      return Object.entries(def.shape).flatMap(([name, inner]) =>
        fieldsOf(inner, path === '' ? name : `${path}.${name}`, (value) => around({ [name]: value })),
      );
    case 'array':
      return fieldsOf(def.element, `${path}[]`, (value) => around([value]));
    case 'record':
      return fieldsOf(def.valueType, `${path}{}`, (value) => around({ any: value }));
    case 'number':
    case 'boolean':
    case 'enum':
      return [];
    default:
      return [{ path, mark, around }];
  }
}

const FIELDS = ALL_KINDS.map((kind): [Kind, Field[]] => [kind, fieldsOf(SCHEMAS[kind], '', (value) => value)]);

describe('a secret is redacted', () => {
  for (const [kind, fields] of FIELDS) {
    for (const { path, mark, around } of fields) {
      if (mark === undefined) continue;
      it(`${kind} ${path} (${mark})`, () => {
        for (const sample of SAMPLES[mark]) {
          const content = around(sample);
          assert.match(JSON.stringify(content), new RegExp(SENTINEL));
          const shown = JSON.stringify(redactContent(kind, content));
          assert.doesNotMatch(shown, new RegExp(SENTINEL), shown);
          assert.match(shown, /\[redacted\]/);
        }
      });
    }
  }
});

test('other fields are shown as they are', () => {
  const route = {
    headers: { request: { set: { 'x-version': 'v2' } } },
    match: [{ headers: { ':authority': { exact: 'a' } } }],
  };
  const filter = patch('HTTP_FILTER', {
    name: 'any',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault',
      delay: { fixed_delay: '5s', percentage: { numerator: 10 } },
    },
  });
  const rule = { issuer: 'https://issuer.example', jwksUri: 'https://issuer.example/keys', audiences: ['a'] };
  const contents: readonly [Kind, unknown][] = [
    ['VirtualService', { hosts: ['web'], http: [route] }],
    ['EnvoyFilter', { configPatches: [filter] }],
    ['RequestAuthentication', { jwtRules: [rule] }],
    ['AuthorizationPolicy', { rules: [{ when: [{ key: 'request.headers[x-version]', values: ['v1'] }] }] }],
  ];
  for (const [kind, content] of contents) assert.deepEqual(redactContent(kind, content), content);
});

test('a message about a refused document does not quote a secret', () => {
  const document = (kind: string, spec: object) =>
    parseResource(
      { apiVersion: 'security.mesh.io/v1beta1', kind, metadata: { name: 'any', namespace: 'shop' }, spec },
      { source: 'test' },
      () => undefined,
    );
  for (const spec of [
    { jwtRules: [{ issuer: 'i', jwksUri: `ftp://user:${SENTINEL}@issuer.example` }] },
    { jwtRules: [{ issuer: 'i', jwks: JSON.stringify({ keys: [{ kty: 'oct', k: SENTINEL }] }) }] },
  ]) {
    const parsed = document('RequestAuthentication', spec);
    assert.ok('problem' in parsed);
    assert.match(parsed.problem.field, /jwks/);
    assert.doesNotMatch(parsed.problem.message, new RegExp(SENTINEL));
  }
});

/** A field by its own name and the one around it: `jwtRules[].fromHeaders[].name` is `fromHeaders[].name`. */
const shortOf = (path: string): string => path.split('.').slice(-2).join('.');

test('every field with a text is marked as secret or listed as plain', () => {
  const known = new Set(PLAIN.split(/\s+/));
  for (const [kind, fields] of FIELDS) {
    const unmarked = fields.filter(({ mark }) => mark === undefined).map(({ path }) => path);
    const unknown = unmarked.filter((path) => !known.has(shortOf(path)));
    assert.deepEqual(unknown, [], `${kind}: mark it in its schema when it can hold a secret, else add it to PLAIN`);
  }
});

/**
 * Fields without secrets. `privateKey` is the name of a file; a key in its place is detected by its first line.
 */
const PLAIN = `
  abort.grpcStatus abort.http2Error address addresses[] addresses[].address addresses[].hostname addresses[].ip
  addresses[].nodeName addresses[].type addresses[].value allowOrigins[].exact allowOrigins[].prefix
  allowOrigins[].regex attributes[].name attributes[].value authority.exact authority.prefix authority.regex
  backendRef.group backendRef.kind backendRef.name backendRef.namespace backendRefs[].group backendRefs[].kind
  backendRefs[].name backendRefs[].namespace binaryData{} body.bytes body.string caCertificateRefs[].group
  caCertificateRefs[].kind caCertificateRefs[].name caCertificateRefs[].namespace certificateRefs[].group
  certificateRefs[].kind certificateRefs[].name certificateRefs[].namespace clientCertificateRef.group
  clientCertificateRef.kind clientCertificateRef.name clientCertificateRef.namespace conditions[].status
  conditions[].type consistentHash.httpHeaderName consistentHash.httpQueryParameterName containers[].name controller
  controllerName cors.allowHeaders[] cors.allowMethods[] cors.allowOrigins[] cors.exposeHeaders[]
  corsPolicy.allowHeaders[] corsPolicy.allowMethods[] corsPolicy.allowOrigin[] corsPolicy.exposeHeaders[]
  corsPolicy.maxAge data{} delay.exponentialDelay delay.fixedDelay delegate.name delegate.namespace destination.host
  destination.subset distribute[].from egressProxy.host egressProxy.subset egress[].bind egress[].hosts[]
  endpoints[].address endpoints[].addresses[] endpoints[].hostname endpoints[].labels{} endpoints[].locality
  endpoints[].network endpoints[].nodeName endpoints[].serviceAccount endpoints[].topology{} endpoints[].zone
  environment.defaultValue environment.name exportTo[] extensionRef.group extensionRef.kind extensionRef.name
  extensionRef.namespace failover[].from
  failover[].to filter.expression filters[].type formatter.value fromHeaders[].name fromHeaders[].prefix from[].group
  from[].kind from[].namespace
  gatewayClassName gateways[] grpc.service header.defaultValue header.name host hostnames[] hosts[] http.idleTimeout
  httpCookie.name httpCookie.path
  http2KeepAlive.interval http2KeepAlive.timeout httpCookie.ttl http[].name http[].timeout httpGet.host httpGet.scheme
  image.imageType infrastructure.annotations{} match.customMetric metrics[].reportingInterval retryBudget.budgetInterval
  tagOverrides{}.value
  infrastructure.labels{} ingressClassName ingress[].bind ingress[].defaultEndpoint ingress[].hostname ingress[].ip
  initContainers[].name jwtRules[].audiences[] jwtRules[].fromCookies[] jwtRules[].fromParams[]
  jwtRules[].outputPayloadToHeader jwtRules[].spaceDelimitedClaims[] jwtRules[].timeout kinds[].group kinds[].kind
  labels{} listeners[].hostname listeners[].name listeners[].protocol literal.value loadBalancer.warmupDurationSecs
  locality
  localityLbSetting.failoverPriority[] matchExpressions[].key matchExpressions[].operator matchExpressions[].values[]
  match[].destinationSubnets[] match[].gateways[] match[].name match[].sniHosts[] match[].sourceLabels{}
  match[].sourceNamespace match[].sourceSubnet match[].statPrefix matches[].method metadata.annotations{}
  metadata.labels{} method.exact method.method method.prefix method.regex method.service method.type
  metrics[]{} mirror.host
  mirror.subset namespaces.from network notReadyAddresses[].hostname notReadyAddresses[].ip
  notReadyAddresses[].nodeName operation.hosts[] operation.methods[] operation.notHosts[] operation.notMethods[]
  operation.notPaths[] operation.notPorts[] operation.paths[] operation.ports[] outlierDetection.baseEjectionTime
  outlierDetection.interval outputClaimToHeaders[].claim outputClaimToHeaders[].header
  parametersRef.group
  parametersRef.kind parametersRef.name parametersRef.namespace parentRefs[].group parentRefs[].kind parentRefs[].name
  parentRefs[].namespace parentRefs[].sectionName path.replaceFullPath path.replacePrefixMatch path.type path.value
  paths[].path podIPs[].ip port.name port.protocol ports[].appProtocol ports[].name ports[].protocol
  ports[].targetPort provider.name providers[].name redirect.authority redirect.scheme redirect.uri request.remove[]
  requestHeaderModifier.remove[] requestRedirect.hostname requestRedirect.scheme resource.kind resource.name
  response.remove[] responseHeaderModifier.remove[] retries.backoff retries.perTryTimeout retries.retryOn
  retry.backoff rewrite.authority rewrite.uri rules[].host rules[].name scheme.exact scheme.prefix scheme.regex
  selector.matchLabels{} selector{} servers[].bind servers[].defaultEndpoint servers[].hosts[] servers[].name
  service.name serviceAccount source.ipBlocks[] source.namespaces[] source.notIpBlocks[] source.notNamespaces[]
  source.notPrincipals[] source.notRemoteIpBlocks[] source.notRequestPrincipals[] source.notServiceAccounts[]
  source.notTrustDomains[] source.principals[] source.remoteIpBlocks[] source.requestPrincipals[]
  source.serviceAccounts[] source.trustDomains[] spec.clusterIP spec.clusterIPs[]
  spec.externalIPs[] spec.externalName spec.externalTrafficPolicy spec.hostname
  spec.internalTrafficPolicy spec.loadBalancerIP spec.nodeName spec.podCIDR spec.podCIDRs[] spec.selector{}
  spec.serviceAccountName spec.sessionAffinity spec.subdomain spec.trafficDistribution status.hostIP status.podIP
  subjectAltNames[] subjectAltNames[].hostname subjectAltNames[].type subjectAltNames[].uri subsets[].labels{}
  subsets[].name targetRef.group targetRef.kind targetRef.name targetRef.namespace targetRefs[].group
  targetRefs[].kind targetRefs[].name targetRefs[].namespace targetRefs[].sectionName tcp.connectTimeout
  tcp.idleTimeout tcp.maxConnectionDuration tcpKeepalive.interval tcpKeepalive.time tcpSocket.host template.address
  template.labels{} template.locality template.network template.serviceAccount timeouts.backendRequest
  timeouts.request tls.caCertCredentialName tls.caCertificates tls.caCrl tls.cipherSuites[] tls.clientCertificate
  tls.credentialName tls.credentialNames[] tls.mode tls.options{} tls.privateKey tls.serverCertificate tls.sni
  tls.subjectAltNames[] tls.verifyCertificateHash[] tls.verifyCertificateSpki[] tlsCertificates[].caCertificates
  tlsCertificates[].privateKey tlsCertificates[].serverCertificate tls[].hosts[] tls[].secretName to[].group to[].kind
  to[].name tunnel.protocol tunnel.targetHost type uri.exact uri.prefix uri.regex uriRegexRewrite.match
  uriRegexRewrite.rewrite urlRewrite.hostname validation.hostname validation.mode validation.wellKnownCACertificates
  warmup.duration workloadSelector.labels{} workloadSelector.matchLabels{}
  actions[].handler actions[].instances[] actions[].name adapter attributes{}.description config connection.address
  connection.timeout description descriptor match mutual.caCertificates mutual.clientCertificate mutual.privateKey
  mutual.serverName name oauth.clientId oauth.scopes[] requestHeaderOperations[].name
  requestHeaderOperations[].operation requestHeaderOperations[].values[] responseHeaderOperations[].name
  responseHeaderOperations[].operation responseHeaderOperations[].values[] revision template templates[]
  tls.customHeader tls.serverName tls.tokenPath
`.trim();
