/**
 * The attributes of rules: whether they are principals or permissions in Envoy's policies, whether they require HTTP,
 * and the matcher of a value. These are the fields of `from` and `to`, and the keys of `when`.
 */
import type { envoy } from '../../../protobuf/index.ts';
import { anyOf, type Condition, leaf, type PermissionLeaf, type PrincipalLeaf } from './condition.ts';
import { headers } from './headers.ts';
import { namespace, principal, serviceAccount, trustDomain } from './identity.ts';
import {
  clientAddress,
  destinationIp,
  destinationPort,
  host,
  method,
  path,
  peerAddress,
  type Reading,
  serverName,
} from './operation.ts';
import { parsePattern, stringMatcher } from './text.ts';
import { claimMatches, requestPrincipal } from './token.ts';

/** Context of a value: the mesh's trust domains, and the policy's own namespace. */
export interface PolicyContext {
  readonly trustDomains: readonly string[];
  readonly namespace: string;
}

export interface Matches<Leaf> {
  /** Whether only HTTP requests have it; connections have the others, too. */
  readonly httpOnly: boolean;
  /** Whether gRPC servers can compare it. */
  readonly inGrpc: boolean;
  /** True for the identity of a workload, which only certificates of the mesh prove. */
  readonly ofMesh: boolean;
  readonly matches: (values: readonly string[], reading: Reading, context: PolicyContext) => Condition<Leaf>;
}

type OneValue<Leaf> = (value: string, reading: Reading, context: PolicyContext) => Condition<Leaf>;

type WhoAttribute = Matches<PrincipalLeaf>;
type WhatAttribute = Matches<PermissionLeaf>;

function onConnections<Leaf>(one: OneValue<Leaf>): Matches<Leaf> {
  return { httpOnly: false, inGrpc: true, ofMesh: false, matches: matchEach(one) };
}

function onRequests<Leaf>(one: OneValue<Leaf>): Matches<Leaf> {
  return { httpOnly: true, inGrpc: true, ofMesh: false, matches: matchEach(one) };
}

/** An attribute of identities, which certificates of the mesh prove. */
function ofWorkloads(one: OneValue<PrincipalLeaf>): WhoAttribute {
  return { ...onConnections(one), ofMesh: true };
}

/** An attribute of tokens, which gRPC servers do not verify. */
function ofTokens(one: OneValue<PrincipalLeaf>): WhoAttribute {
  return { ...onRequests(one), inGrpc: false };
}

function matchEach<Leaf>(one: OneValue<Leaf>): Matches<Leaf>['matches'] {
  return (values, reading, context) => anyOf(values.map((value) => one(value, reading, context)));
}

const PRINCIPAL = ofWorkloads((value, _, { trustDomains }) => principal(value, trustDomains));
const NAMESPACE = ofWorkloads(namespace);
const SERVICE_ACCOUNT = ofWorkloads((value, _, context) => serviceAccount(value, context.namespace));
const TRUST_DOMAIN = ofWorkloads((value, _, { trustDomains }) => trustDomain(value, trustDomains));
const PEER_ADDRESS: WhoAttribute = onConnections(peerAddress);
/**
 * Headers of a connection are unknown; its peer may not be the client. gRPC servers compare the peer's address in its
 * place, which is a gateway's for requests from outside the mesh.
 */
const CLIENT_ADDRESS: WhoAttribute = { ...onConnections(clientAddress), inGrpc: false };
const REQUEST_PRINCIPAL: WhoAttribute = ofTokens(requestPrincipal);
const PORT: WhatAttribute = onConnections(destinationPort);

/** Fields of `from[].source`; each has a negated form with the prefix `not`. */
export const SOURCE_FIELDS = {
  principals: PRINCIPAL,
  requestPrincipals: REQUEST_PRINCIPAL,
  namespaces: NAMESPACE,
  trustDomains: TRUST_DOMAIN,
  serviceAccounts: SERVICE_ACCOUNT,
  ipBlocks: PEER_ADDRESS,
  remoteIpBlocks: CLIENT_ADDRESS,
} as const;

/** Fields of `to[].operation`. */
export const OPERATION_FIELDS = {
  hosts: onRequests(host),
  ports: PORT,
  methods: onRequests(method),
  paths: onRequests(path),
} as const satisfies Record<string, WhatAttribute>;

/** Keys of a `when`: properties of the caller, or of the request. */
export type Attribute = { readonly who: WhoAttribute } | { readonly what: WhatAttribute };

const ATTRIBUTES: Readonly<Record<string, Attribute>> = {
  'source.ip': { who: PEER_ADDRESS },
  'remote.ip': { who: CLIENT_ADDRESS },
  'source.namespace': { who: NAMESPACE },
  'source.principal': { who: PRINCIPAL },
  'source.trustDomain': { who: TRUST_DOMAIN },
  'source.serviceAccount': { who: SERVICE_ACCOUNT },
  'request.auth.principal': { who: REQUEST_PRINCIPAL },
  'request.auth.audiences': { who: ofTokens((value) => claimMatches(['aud'], value)) },
  'request.auth.presenter': { who: ofTokens((value) => claimMatches(['azp'], value)) },
  'destination.ip': { what: onConnections(destinationIp) },
  'destination.port': { what: PORT },
  // gRPC servers do not know the server name that a client requested.
  'connection.sni': { what: { ...onConnections(serverName), inGrpc: false } },
};

/** The attribute of a key of `when`; undefined for an unknown key. */
export function findAttribute(key: string): Attribute | undefined {
  const known = Object.hasOwn(ATTRIBUTES, key) ? ATTRIBUTES[key] : undefined;
  if (known !== undefined) return known;
  const name = /^request\.headers\[([^\]]+)\]$/.exec(key)?.[1];
  if (name !== undefined) {
    const header = headerName(name);
    const inGrpc = isGrpcHeader(header);
    return {
      who: { httpOnly: true, inGrpc, ofMesh: false, matches: (values, reading) => headers(header, values, reading) },
    };
  }
  const [, filter, field] = /^experimental\.(envoy\.filters\.[^[\]]+)\[([^\]]+)\]$/.exec(key) ?? [];
  // gRPC servers have no filters that create metadata.
  if (filter !== undefined && field !== undefined)
    return { who: { ...onConnections((value) => filterMetadata(filter, field, value)), inGrpc: false } };
  const claims = /^request\.auth\.claims((?:\[[^\]]+\])+)$/.exec(key)?.[1];
  if (claims === undefined) return undefined;
  const levels = claims.slice(1, -1).split('][');
  return { who: ofTokens((value) => claimMatches(levels, value)) };
}

/**
 * Headers that gRPC servers do not compare (https://github.com/grpc/proposal/blob/master/A41-xds-rbac.md); they reject
 * a listener because of some of them.
 */
const NOT_COMPARED = /^(?:grpc-.*|:scheme|te|connection|keep-alive|transfer-encoding|upgrade|.*-bin)$/;

/** Whether gRPC servers compare a header, named in lower case. */
export function isGrpcHeader(name: string): boolean {
  return !NOT_COMPARED.test(name);
}

/** Envoy stores the `host` header of HTTP/1 clients as `:authority`. */
function headerName(name: string): string {
  const lower = name.toLowerCase();
  return lower === 'host' ? ':authority' : lower;
}

type Value = envoy.type.matcher.v3.ValueMatcher.Input;

/**
 * Metadata that a filter of Envoy made for the request or connection, as `experimental.envoy.filters.<filter>[<field>]`
 * names it. Without such metadata, nothing matches. A value in brackets is one element of a list.
 */
function filterMetadata(filter: string, field: string, value: string): Condition<PrincipalLeaf> {
  const element = /^\[(.*)\]$/s.exec(value)?.[1];
  const matcher = element === undefined ? textValue(value) : { listMatch: { oneOf: textValue(element) } };
  return leaf({ metadata: { filter, path: [{ key: field }], value: matcher } });
}

function textValue(value: string): Value {
  const pattern = parsePattern(value);
  return pattern.kind === 'any' ? { presentMatch: true } : { stringMatch: stringMatcher(pattern) };
}
