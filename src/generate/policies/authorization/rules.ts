/**
 * Rules of an AuthorizationPolicy as policies of Envoy's RBAC: the values of a field are alternatives; fields, and
 * `from`, `to` and `when`, must all match.
 *
 * On TCP connections, HTTP attributes are unknown. An ALLOW rule with such an attribute allows no connections; in other
 * rules (DENY, CUSTOM, AUDIT) the attribute is left out, so that they match more and never less. The same applies to
 * gRPC servers and the attributes that these cannot compare.
 */
import type { envoy } from '../../../protobuf/index.ts';
import type {
  AuthorizationCondition,
  AuthorizationOperation,
  AuthorizationRule,
  AuthorizationSource,
} from '../../../resources/index.ts';
import type { Certificates } from '../types.ts';
import { findAttribute, type Matches, OPERATION_FIELDS, type PolicyContext, SOURCE_FIELDS } from './attributes.ts';
import {
  ALWAYS,
  allOf,
  anyOf,
  type Condition,
  isNever,
  NEVER,
  not,
  type PermissionLeaf,
  type PrincipalLeaf,
  toPermission,
  toPrincipal,
} from './condition.ts';
import { type Reading, unclear } from './operation.ts';

export type RbacPolicy = envoy.config.rbac.v3.Policy.Input;

/** RBAC policies by name: Envoy evaluates them in the order of their names. */
export type NamedPolicies = Readonly<Record<string, RbacPolicy>>;

export interface RuleContext extends PolicyContext {
  /** `allow` for action ALLOW, `restrict` for every other action. */
  readonly effect: 'allow' | 'restrict';
  readonly protocol: 'http' | 'tcp' | 'grpc';
  readonly certificates: Certificates;
  /** Whether Envoy supports `sourced_metadata` of principals. */
  readonly sourcedMetadata: boolean;
}

type Values = readonly string[] | undefined;

const SOURCE_NAMES = Object.keys(SOURCE_FIELDS) as (keyof typeof SOURCE_FIELDS)[];
const OPERATION_NAMES = Object.keys(OPERATION_FIELDS) as (keyof typeof OPERATION_FIELDS)[];

/** The policy of a rule; undefined for a rule that cannot match. */
export function rbacPolicy(rule: AuthorizationRule, context: RuleContext): RbacPolicy | undefined {
  if (context.effect === 'allow' && asksFor(rule, (attribute) => !isKnown(attribute, context))) return undefined;
  const { from, to, when = [] } = rule;
  const conditions = when.map((condition) => whenMatches(condition, context));
  const who = allOf([
    ...(from === undefined
      ? []
      : [
          alternatives(
            from.map(({ source }) => sourceMatches(source, context)),
            context,
          ),
        ]),
    ...conditions.flatMap((condition) => ('who' in condition ? [condition.who] : [])),
  ]);
  const what = allOf([
    ...(to === undefined
      ? []
      : [
          alternatives(
            to.map(({ operation }) => operationMatches(operation, context)),
            context,
          ),
        ]),
    ...conditions.flatMap((condition) => ('what' in condition ? [condition.what] : [])),
  ]);
  if (isNever(who) || isNever(what)) return undefined;
  return { permissions: [toPermission(what)], principals: [toPrincipal(who, context.sourcedMetadata)] };
}

type AnyAttribute = Pick<Matches<unknown>, 'httpOnly' | 'inGrpc'>;

/** Whether an attribute can be compared there. */
function isKnown({ httpOnly, inGrpc }: AnyAttribute, { protocol }: Pick<RuleContext, 'protocol'>): boolean {
  if (protocol === 'grpc') return inGrpc;
  return protocol === 'http' || !httpOnly;
}

/** Whether a rule has attributes that gRPC servers cannot compare. */
export function asksForMoreThanGrpc(rule: AuthorizationRule): boolean {
  return asksFor(rule, ({ inGrpc }) => !inGrpc);
}

/** Whether some part of a rule is about such an attribute. */
function asksFor(
  { from = [], to = [], when = [] }: AuthorizationRule,
  of: (attribute: AnyAttribute) => boolean,
): boolean {
  return (
    from.some(({ source }) => SOURCE_NAMES.some((name) => of(SOURCE_FIELDS[name]) && isGiven(source, name))) ||
    to.some(({ operation }) =>
      OPERATION_NAMES.some((name) => of(OPERATION_FIELDS[name]) && isGiven(operation, name)),
    ) ||
    when.some(({ key }) => {
      const attribute = findAttribute(key);
      return attribute !== undefined && of('who' in attribute ? attribute.who : attribute.what);
    })
  );
}

export function asksForPaths({ to = [], when = [] }: AuthorizationRule): boolean {
  return (
    to.some(({ operation }) => isGiven(operation, 'paths')) || when.some(({ key }) => key === 'request.headers[:path]')
  );
}

/** An empty list, which validation refuses, counts as absent. */
function alternatives<Leaf>(conditions: readonly Condition<Leaf>[], context: RuleContext): Condition<Leaf> {
  return conditions.length === 0 ? unclear(readingOf(context)) : anyOf(conditions);
}

function sourceMatches(source: AuthorizationSource, context: RuleContext): Condition<PrincipalLeaf> {
  const given = SOURCE_NAMES.filter((name) => isGiven(source, name));
  if (given.length === 0) return unclear(readingOf(context));
  return allOf(given.map((name) => fieldMatches(SOURCE_FIELDS[name], source[name], source[negative(name)], context)));
}

function operationMatches(operation: AuthorizationOperation, context: RuleContext): Condition<PermissionLeaf> {
  const given = OPERATION_NAMES.filter((name) => isGiven(operation, name));
  if (given.length === 0) return unclear(readingOf(context));
  return allOf(
    given.map((name) => fieldMatches(OPERATION_FIELDS[name], operation[name], operation[negative(name)], context)),
  );
}

function whenMatches(
  { key, values, notValues }: AuthorizationCondition,
  context: RuleContext,
): { readonly who: Condition<PrincipalLeaf> } | { readonly what: Condition<PermissionLeaf> } {
  const attribute = findAttribute(key);
  if (attribute === undefined) return { who: unclear(readingOf(context)) };
  if ('who' in attribute) return { who: fieldMatches(attribute.who, values, notValues, context) };
  return { what: fieldMatches(attribute.what, values, notValues, context) };
}

/** A field with its negation, for rules that deny: attributes that cannot be compared are left out. */
function fieldMatches<Leaf>(
  { httpOnly, inGrpc, ofMesh, matches }: Matches<Leaf>,
  values: Values = [],
  notValues: Values = [],
  context: RuleContext,
): Condition<Leaf> {
  if (!isKnown({ httpOnly, inGrpc }, context)) return ALWAYS;
  const reading = readingOf(context);
  // Clients whose identity is not proved are treated like clients without a certificate.
  const some: typeof matches = ofMesh && context.certificates === 'foreign' ? () => NEVER : matches;
  const all: Condition<Leaf>[] = [];
  if (values.length > 0) all.push(some(values, reading, context));
  if (notValues.length > 0) {
    const opposite = reading === 'wide' ? 'narrow' : 'wide';
    all.push(not(some(notValues, opposite, context)));
  }
  return allOf(all);
}

function readingOf({ effect }: RuleContext): Reading {
  return effect === 'allow' ? 'narrow' : 'wide';
}

type Negative<Name extends string> = `not${Capitalize<Name>}`;

function negative<Name extends string>(name: Name): Negative<Name> {
  return `not${name.charAt(0).toUpperCase()}${name.slice(1)}` as Negative<Name>;
}

function isGiven<Name extends string>(
  fields: Readonly<Partial<Record<Name | Negative<Name>, Values>>>,
  name: Name,
): boolean {
  return (fields[name]?.length ?? 0) > 0 || (fields[negative(name)]?.length ?? 0) > 0;
}
