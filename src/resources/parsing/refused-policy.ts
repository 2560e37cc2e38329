/** Refused documents of the guarded kinds: which kind was meant, and what replaces the policy. */
import { meantAsDryRun } from '../dry-run.ts';
import {
  POLICY_KINDS,
  type PolicyKind,
  type ResourceProblem,
  SECURITY_KINDS,
  type SecurityKind,
  SUBSTITUTED_KINDS,
  type SubstitutedKind,
} from '../kinds/types.ts';
import { namesIn } from './metadata.ts';
import { nestedTooDeep } from './nesting.ts';
import { withoutNulls } from './nulls.ts';
import { resembles } from './resembles.ts';
import { isSecurityKind, substitutesFor } from './substitute.ts';

/** Substitutes for a refused document, if it is, or was meant to be, of a guarded kind. */
export function refusedPolicy(raw: unknown): Pick<ResourceProblem, 'substitutes'> {
  const kind = isObject(raw) ? (meantRule(raw) ?? meantPolicy(raw)) : undefined;
  if (kind === undefined) return {};
  // Without them, the rules that need them refuse requests.
  if (!isSubstituted(kind)) return { substitutes: [] };
  // If a document is nested too deep, a part with nulls counts as unreadable.
  const document = nestedTooDeep(raw) === undefined ? withoutNulls(raw) : raw;
  if (!isObject(document)) return {};
  if (kind === 'AuthorizationPolicy' && meantAsDryRun(document.metadata)) return { substitutes: [] };
  return { substitutes: substitutesFor(kind, namesIn(document.metadata), document.spec) };
}

function isSubstituted(kind: SecurityKind | PolicyKind): kind is SubstitutedKind {
  return SUBSTITUTED_KINDS.some((each) => each === kind);
}

/** Fields that identify a policy whose kind cannot be read. */
const POLICY_FIELDS: Readonly<Record<SecurityKind, readonly string[]>> = {
  AuthorizationPolicy: ['rules', 'action'],
  PeerAuthentication: ['mtls', 'portLevelMtls'],
  RequestAuthentication: ['jwtRules'],
};

/** The kind of the policy component that a document has or was meant to have. */
function meantRule({ apiVersion, kind, spec }: Record<string, unknown>): PolicyKind | undefined {
  if (!isPolicyVersion(apiVersion)) return undefined;
  const meant = meantPolicyKind(kind);
  if (meant !== undefined || typeof kind === 'string') return meant;
  return isObject(spec) && RULE_FIELDS.some((field) => field in spec) ? 'rule' : undefined;
}

const RULE_FIELDS = ['actions', 'requestHeaderOperations', 'responseHeaderOperations'] as const;

/** Whether a version is one of the API groups of the policy component. */
export function isPolicyVersion(apiVersion: unknown): boolean {
  return /^config\.(mesh|istio)\.io(\/|$)/.test(String(apiVersion));
}

/** The kind of the policy component that a kind in its API group is, or resembles. */
export function meantPolicyKind(kind: unknown): PolicyKind | undefined {
  if (typeof kind !== 'string') return undefined;
  return POLICY_KINDS.find((each) => each === kind) ?? POLICY_KINDS.find((each) => resembles(kind, each));
}

/** The security kind that a document has or was meant to have. */
function meantPolicy({ apiVersion, kind, spec }: Record<string, unknown>): SecurityKind | undefined {
  if (typeof apiVersion === 'string' && !isMeshVersion(apiVersion)) return undefined;
  if (isSecurityKind(kind)) return kind;
  if (!String(apiVersion).startsWith('security.')) return undefined;
  const named = SECURITY_KINDS.find((each) => typeof kind === 'string' && resembles(kind, each));
  return named ?? SECURITY_KINDS.find((each) => isObject(spec) && POLICY_FIELDS[each].some((field) => field in spec));
}

/** Whether a version was meant to be one of the mesh: one of its groups, a similar one, or none. */
export function isMeshVersion(apiVersion: string): boolean {
  const [group = '', version] = apiVersion.split('/');
  if (version === undefined || /\.(mesh|istio)\.io$/.test(group)) return true;
  return resembles(group, 'security.istio.io') || resembles(group, 'security.mesh.io');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
