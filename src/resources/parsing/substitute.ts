/**
 * Substitutes for refused documents of which no good version is known: the strictest policy that the document can have
 * been, for the workloads that its selector covers as far as it can be read. A mistake in a policy
 * may therefore deny requests, but never allows more.
 *
 * - AuthorizationPolicy (ALLOW, DENY, CUSTOM, or an action that cannot be read): deny everything. AUDIT: nothing.
 * - PeerAuthentication: mutual TLS only, on all ports.
 * - RequestAuthentication: no token is valid, in the document's own token locations and the usual ones. Requests
 *   without a token are not affected.
 * - Rules of the policy component: see `rule-substitute.ts`.
 *
 * A selector that cannot be read covers the namespace, a namespace that cannot be read the mesh.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { isObject } from '../../core/objects.ts';
import type { ContentOf } from '../kinds/schemas.ts';
import {
  type AnyResource,
  GUARDED_KINDS,
  type ResourceMeta,
  type ResourceOrigin,
  SECURITY_KINDS,
  type SecurityKind,
  type Substitute,
  type SubstitutedKind,
} from '../kinds/types.ts';
import { targetRef, workloadSelector } from '../schema/common.ts';
import { authorizationPolicy, type JwtRule, requestAuthentication } from '../schema/security.ts';
import { checkSelector } from '../validate/policy-values.ts';
import { checkJwtRule } from '../validate/security.ts';
import { errorList } from '../validate/validation-errors.ts';
import { fingerprintOf } from './fingerprint.ts';
import { substituteRule } from './rule-substitute.ts';

export function isSecurityKind(kind: unknown): kind is SecurityKind {
  return SECURITY_KINDS.some((each) => each === kind);
}

/** Whether refused documents of a kind must not widen access. */
export function isGuardedKind(kind: unknown): boolean {
  return GUARDED_KINDS.some((each) => each === kind);
}

/** The readable part of a document's metadata. */
export interface SubstituteName {
  readonly namespace?: string;
  readonly name?: string;
}

/** Issuer in the rules of a substitute. It has no keys, so that no token can be valid. */
const NO_ISSUER = 'refused-request-authentication';

/** Maximum number of rules; each is a part of every listener it applies to. */
const MAX_RULES = 64;

/**
 * @param spec the spec, if it could be parsed at all
 */
export function substitutesFor(kind: SubstitutedKind, of: SubstituteName, spec: unknown): Substitute[] {
  if (kind === 'rule') {
    const content = substituteRule(spec);
    return [{ kind, ...of, content, selectorKnown: content.match !== undefined }];
  }
  const { target, selectorKnown } = targetOf(kind, spec, of.namespace !== undefined);
  const content = contentOf(kind, target, spec);
  return content === undefined ? [] : [{ kind, ...of, content, selectorKnown }];
}

type Target = Pick<ContentOf<'RequestAuthentication'>, 'selector' | 'targetRef' | 'targetRefs'>;

/** The document's selector; absent if it cannot be read, or if another field may be a misspelt selector. */
function targetOf(
  kind: SecurityKind,
  spec: unknown,
  namespaceKnown: boolean,
): { readonly target: Target; readonly selectorKnown: boolean } {
  const unknown = { target: {}, selectorKnown: false };
  if (!isObject(spec) || !namespaceKnown) return unknown;
  const schema = kind === 'PeerAuthentication' ? PEER_TARGET : TARGET;
  const parsed = schema.safeParse(spec);
  if (!parsed.success) return unknown;
  const target = Object.fromEntries(
    Object.entries(parsed.data).filter(([field]) => TARGET_FIELDS.includes(field)),
  ) as Target;
  const { errors, found } = errorList();
  checkSelector(errors, target.selector);
  if (target.selector !== undefined && (target.targetRef !== undefined || target.targetRefs?.length)) return unknown;
  // An unknown field may be the selector, misspelt.
  const known = KNOWN_FIELDS[kind];
  if (found.length > 0 || (Object.keys(target).length === 0 && Object.keys(spec).some((field) => !known.has(field)))) {
    return unknown;
  }
  return { target, selectorKnown: true };
}

const PEER_TARGET = z.object({ selector: workloadSelector.optional() });
const TARGET = z.object({
  selector: workloadSelector.optional(),
  targetRef: targetRef.optional(),
  targetRefs: z.array(targetRef).optional(),
});
const TARGET_FIELDS: readonly string[] = ['selector', 'targetRef', 'targetRefs'];
const KNOWN_FIELDS: Readonly<Record<SecurityKind, ReadonlySet<string>>> = {
  AuthorizationPolicy: new Set(Object.keys(authorizationPolicy.shape)),
  PeerAuthentication: new Set(['selector', 'mtls', 'portLevelMtls']),
  RequestAuthentication: new Set(Object.keys(requestAuthentication.shape)),
};

function contentOf(kind: SecurityKind, target: Target, spec: unknown): ContentOf<SecurityKind> | undefined {
  switch (kind) {
    case 'AuthorizationPolicy':
      return isObject(spec) && spec.action === 'AUDIT' ? undefined : { ...target, action: 'DENY', rules: [{}] };
    case 'PeerAuthentication':
      return { ...target, mtls: { mode: 'STRICT' } };
    case 'RequestAuthentication':
      return { ...target, jwtRules: rulesOf(spec) };
  }
}

/**
 * Rules that accept no token. The document's token locations, and the headers in which it passes claims to
 * applications, stay as far as they can be read: otherwise a client could set these headers itself.
 */
function rulesOf(spec: unknown): JwtRule[] {
  const written: readonly unknown[] = isObject(spec) && Array.isArray(spec.jwtRules) ? spec.jwtRules : [];
  const rules = written.slice(0, MAX_RULES).map(placesOfRule);
  return [...rules.filter((rule) => Object.keys(rule).length > 0), {}].map((rule) => ({ ...rule, issuer: NO_ISSUER }));
}

function placesOfRule(written: unknown): Omit<JwtRule, 'issuer'> {
  if (!isObject(written)) return {};
  const fields = PLACE_FIELDS.filter((field) => {
    const one = JWT_RULE.safeParse({ issuer: NO_ISSUER, [field]: written[field] });
    if (!one.success || written[field] === undefined) return false;
    const { errors, found } = errorList();
    checkJwtRule(one.data, errors);
    return found.length === 0;
  });
  const { issuer: _issuer, ...rule } = JWT_RULE.parse({
    issuer: NO_ISSUER,
    ...Object.fromEntries(fields.map((field) => [field, written[field]])),
  });
  return rule;
}

const JWT_RULE = requestAuthentication.shape.jwtRules.unwrap().element;
const PLACE_FIELDS = [
  'fromHeaders',
  'fromParams',
  'fromCookies',
  'outputPayloadToHeader',
  'outputClaimToHeaders',
] as const;

/**
 * The substitute as a resource.
 * @param id identity of the refused document in its source, for a document without a name
 */
export function substituteResource(
  substitute: Substitute,
  {
    id,
    origin,
    rootNamespace,
  }: { readonly id: string; readonly origin: ResourceOrigin; readonly rootNamespace: string },
): AnyResource {
  const { kind, content, selectorKnown } = substitute;
  const meta: ResourceMeta = {
    // No document can have such a name.
    name: substitute.name ?? `~${hash('sha256', `${origin.source}\n${id}`, 'hex').slice(0, 16)}`,
    namespace: substitute.namespace ?? rootNamespace,
    labels: {},
    annotations: {},
    substitute: selectorKnown ? 'covers' : 'overrides',
  };
  // Kind and content belong together: `contentOf` made one for the other.
  return { kind, meta, content, origin, fingerprint: fingerprintOf(kind, meta, content) } as AnyResource;
}
