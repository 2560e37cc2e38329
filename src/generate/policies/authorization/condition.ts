/**
 * A rule's condition as a tree: its leaves are matchers of Envoy's RBAC filter, which has one kind of tree for the
 * caller (principals) and one for the request (permissions). Both are generated from the same tree.
 */
import type { envoy } from '../../../protobuf/index.ts';

type Principal = envoy.config.rbac.v3.Principal.Input;
type Permission = envoy.config.rbac.v3.Permission.Input;

/** Matchers of the caller. */
export type PrincipalLeaf = Omit<Principal, 'andIds' | 'orIds' | 'notId' | 'any'>;
/** Matchers of the request. */
export type PermissionLeaf = Omit<Permission, 'andRules' | 'orRules' | 'notRule' | 'any'>;

/** An empty `all` is always true, an empty `any` never. */
export type Condition<Leaf> =
  | { readonly leaf: Leaf }
  | { readonly all: readonly Condition<Leaf>[] }
  | { readonly any: readonly Condition<Leaf>[] }
  | { readonly not: Condition<Leaf> };

export const ALWAYS = { all: [] } as const;
export const NEVER = { any: [] } as const;

export function isAlways(condition: Condition<unknown>): boolean {
  return 'all' in condition && condition.all.length === 0;
}

export function isNever(condition: Condition<unknown>): boolean {
  return 'any' in condition && condition.any.length === 0;
}

/** All of them. Constants are folded, because Envoy accepts no empty lists. */
export function allOf<Leaf>(conditions: readonly Condition<Leaf>[]): Condition<Leaf> {
  if (conditions.some(isNever)) return NEVER;
  const asking = conditions.filter((condition) => !isAlways(condition));
  const [only] = asking;
  return asking.length === 1 && only !== undefined ? only : { all: asking };
}

export function anyOf<Leaf>(conditions: readonly Condition<Leaf>[]): Condition<Leaf> {
  if (conditions.some(isAlways)) return ALWAYS;
  const possible = conditions.filter((condition) => !isNever(condition));
  const [only] = possible;
  return possible.length === 1 && only !== undefined ? only : { any: possible };
}

export function not<Leaf>(condition: Condition<Leaf>): Condition<Leaf> {
  if (isAlways(condition)) return NEVER;
  if (isNever(condition)) return ALWAYS;
  return 'not' in condition ? condition.not : { not: condition };
}

export function leaf<Leaf>(matcher: Leaf): Condition<Leaf> {
  return { leaf: matcher };
}

/** @param sourced whether Envoy supports `sourced_metadata`, which replaces `metadata` */
export function toPrincipal(condition: Condition<PrincipalLeaf>, sourced: boolean): Principal {
  const each = (part: Condition<PrincipalLeaf>) => toPrincipal(part, sourced);
  if (isAlways(condition)) return { any: true };
  if (isNever(condition)) return { notId: { any: true } };
  if ('leaf' in condition) return sourced ? withSource(condition.leaf) : condition.leaf;
  if ('not' in condition) return { notId: each(condition.not) };
  if ('all' in condition) return { andIds: { ids: condition.all.map(each) } };
  return { orIds: { ids: condition.any.map(each) } };
}

/** The request's own metadata, which is the default source. */
function withSource({ metadata, ...rest }: PrincipalLeaf): PrincipalLeaf {
  return metadata ? { ...rest, sourcedMetadata: { metadataMatcher: metadata } } : rest;
}

export function toPermission(condition: Condition<PermissionLeaf>): Permission {
  if (isAlways(condition)) return { any: true };
  if (isNever(condition)) return { notRule: { any: true } };
  if ('leaf' in condition) return condition.leaf;
  if ('not' in condition) return { notRule: toPermission(condition.not) };
  if ('all' in condition) return { andRules: { rules: condition.all.map(toPermission) } };
  return { orRules: { rules: condition.any.map(toPermission) } };
}
