/**
 * The policies of gRPC servers that speak xDS themselves, as RBAC filters. They deny requests that a DENY policy
 * matches, and then requests that no ALLOW policy matches. Such servers verify no tokens and call no external
 * authorizers. Requests that they cannot decide are denied.
 * Source: https://github.com/grpc/proposal/blob/master/A41-xds-rbac.md
 */
import { anyWorkload, trustDomainsOf } from '../common/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { GrpcServerView } from '../views.ts';
import { type TokenReader, tokenReaders } from './authentication/index.ts';
import { allowFilter, denyFilter, grpcRules, isGrpcHeader, type RbacPolicy } from './authorization/index.ts';
import type { HttpFilter } from './types.ts';

type Principal = NonNullable<RbacPolicy['principals']>[number];

export interface GrpcServerPolicies {
  readonly filters: readonly HttpFilter[];
  /** Conditions that gRPC servers do not support and that are denied, one line each. */
  readonly problems: readonly string[];
}

/** @param mutual whether clients have certificates of the mesh */
export function grpcServerPolicies(
  snapshot: MeshReader,
  { policies }: GrpcServerView,
  mutual: boolean,
): GrpcServerPolicies {
  const rules = grpcRules(snapshot, policies);
  const tokens = tokenReaders(snapshot, policies);
  const deny = {
    ...rules.deny,
    ...(mutual && !snapshot.settings.skipTrustDomainCheck && { 'trust-domains': onlyTrusted(snapshot) }),
    ...(tokens.length > 0 && { tokens: { permissions: [{ any: true }], principals: tokens.flatMap(readBy) } }),
  };
  const filters: HttpFilter[] = [];
  // gRPC needs another name for each filter of a listener.
  if (Object.keys(deny).length > 0) filters.push({ ...denyFilter('http', deny), name: 'deny' });
  if (rules.allow !== undefined) filters.push({ ...allowFilter('http', rules.allow), name: 'allow' });
  const unverified = [...new Set(tokens.map(({ name }) => name))].map(
    (name) => `RequestAuthentication ${name}: gRPC servers do not verify tokens; requests with a token are refused`,
  );
  return { filters, problems: [...rules.problems, ...unverified] };
}

/** Clients of other trust domains: gRPC servers verify certificates, and compare no names in them. */
function onlyTrusted({ settings, mesh }: MeshReader): RbacPolicy {
  const ids = anyWorkload(trustDomainsOf(settings, mesh)).map(
    ({ matcher }): Principal => ({ authenticated: { principalName: matcher } }),
  );
  return { permissions: [{ any: true }], principals: [{ notId: { orIds: { ids } } }] };
}

/** Matches requests with a token in a location of the rule, or with a header that passes claims to the application. */
function readBy({ headers, cookies }: TokenReader): Principal[] {
  return [
    ...headers.map(({ name, prefix }) => withHeader(name, prefix)),
    ...cookies.map((name) => withHeader('cookie', `${name}=`)),
  ];
}

function withHeader(name: string, content: string): Principal {
  if (!isGrpcHeader(name)) return { any: true };
  // Several headers with the same name are compared as one string.
  const match = content === '' ? { presentMatch: true } : { stringMatch: { contains: content, ignoreCase: true } };
  return { header: { name, ...match } };
}
