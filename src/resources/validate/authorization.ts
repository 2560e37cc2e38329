/**
 * Validates AuthorizationPolicy. A value that cannot match anything is refused: in a rule that denies requests, it
 * would have no effect without anyone noticing.
 *
 * A star at the beginning or the end of a value matches the rest; anywhere else it is an ordinary character. Paths may
 * have templates (`{*}`, `{**}`) instead.
 */

import { shown } from '../parsing/issues.ts';
import { isPathTemplate, templateError } from '../path-templates.ts';
import type {
  AuthorizationCondition,
  AuthorizationOperation,
  AuthorizationPolicySpec,
  AuthorizationRule,
  AuthorizationSource,
} from '../schema/security.ts';
import { checkFilled, checkPorts, checkSelector, checkTarget } from './policy-values.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkHeaderName, isCidr } from './values.ts';

type Check = (errors: ValidationErrors, value: string) => void;

export function validateAuthorizationPolicy(spec: AuthorizationPolicySpec, errors: ValidationErrors): void {
  checkTarget(spec, errors);
  checkSelector(errors.at('selector'), spec.selector);
  const { action = 'ALLOW', rules = [] } = spec;
  if ((action === 'DENY' || action === 'CUSTOM') && rules.length === 0) {
    errors.add(['rules'], `required for action ${action}; without rules it never matches ("rules: [{}]" always does)`);
  }
  if (action === 'CUSTOM' && !spec.provider?.name) errors.add(['provider', 'name'], 'required for action CUSTOM');
  if (action !== 'CUSTOM' && spec.provider !== undefined) errors.add(['provider'], 'expected only with action CUSTOM');
  errors.at('rules').atMost('rules', rules.length);
  each(errors.at('rules'), rules, checkRule);
  if (action === 'CUSTOM') each(errors.at('rules'), rules, checkKnownBeforeTokens);
}

function checkRule(rule: AuthorizationRule, errors: ValidationErrors): void {
  for (const field of ['from', 'to'] as const) {
    if (rule[field]?.length === 0) errors.add([field], 'expected at least one item; omit the field to match any');
  }
  each(errors.at('from'), rule.from, ({ source }, at) => checkSource(source, at.at('source')));
  each(errors.at('to'), rule.to, ({ operation }, at) => checkOperation(operation, at.at('operation')));
  each(errors.at('when'), rule.when, checkCondition);
}

/** External authorizers are called before tokens are verified. */
function checkKnownBeforeTokens({ from, when }: AuthorizationRule, errors: ValidationErrors): void {
  const message = 'not supported with action CUSTOM: tokens are verified after external authorizers are called';
  each(errors.at('from'), from, ({ source }, at) => {
    for (const field of ['requestPrincipals', 'notRequestPrincipals'] as const) {
      if (source[field] !== undefined) at.add(['source', field], message);
    }
  });
  each(errors.at('when'), when, ({ key }, at) => {
    if (key.startsWith('request.auth.')) at.add(['key'], message);
  });
}

function checkLists(lists: Readonly<Record<string, readonly string[] | undefined>>, errors: ValidationErrors): void {
  const filled = Object.entries(lists).filter(([, items]) => items !== undefined && items.length > 0);
  if (filled.length === 0) errors.add([], 'expected at least one field with a value');
  for (const [field, items] of Object.entries(lists)) checkValues(items, errors.at(field));
}

function checkValues(items: readonly string[] | undefined, errors: ValidationErrors): void {
  checkFilled(items, errors);
  each(errors, items, (item, at) => {
    if (item.length > 1 && item.startsWith('*') && item.endsWith('*')) {
      at.add([], `expected "*" at one end only (at the other end it would match literally), got ${shown(item)}`);
    }
  });
}

/** Checks a field and its opposite. */
function checkBoth<Name extends string>(
  lists: Readonly<Partial<Record<Name, readonly string[] | undefined>>>,
  names: readonly Name[],
  errors: ValidationErrors,
  check: Check,
): void {
  for (const name of names) each(errors.at(name), lists[name], (item, at) => check(at, item));
}

function checkSource(source: AuthorizationSource, errors: ValidationErrors): void {
  checkLists(source, errors);
  checkAccountsAlone(source, errors);
  checkBoth(source, ['principals', 'notPrincipals'], errors, checkPrincipal);
  checkBoth(source, ['trustDomains', 'notTrustDomains'], errors, checkTrustDomain);
  checkBoth(source, ['namespaces', 'notNamespaces'], errors, checkNamespace);
  checkBoth(source, ['serviceAccounts', 'notServiceAccounts'], errors, checkServiceAccount);
  checkBoth(source, ['ipBlocks', 'notIpBlocks', 'remoteIpBlocks', 'notRemoteIpBlocks'], errors, checkCidr);
}

/** A service account already includes a namespace: with a different namespace, the source would match no caller. */
function checkAccountsAlone(source: AuthorizationSource, errors: ValidationErrors): void {
  const given = (field: keyof AuthorizationSource) => (source[field]?.length ?? 0) > 0;
  const accounts = (['serviceAccounts', 'notServiceAccounts'] as const).find(given);
  const others = (['principals', 'notPrincipals', 'namespaces', 'notNamespaces'] as const).find(given);
  if (accounts === undefined || others === undefined) return;
  errors.addForAuthor(
    [accounts],
    `must not be combined with ${others}; to give the namespace, write "<namespace>/<account>"`,
  );
}

function checkOperation(operation: AuthorizationOperation, errors: ValidationErrors): void {
  checkLists(operation, errors);
  checkPorts(operation.ports, errors.at('ports'));
  checkPorts(operation.notPorts, errors.at('notPorts'));
  checkBoth(operation, ['hosts', 'notHosts'], errors, checkHost);
  checkBoth(operation, ['paths', 'notPaths'], errors, checkPath);
}

function checkPrincipal(errors: ValidationErrors, value: string): void {
  if (value.startsWith('spiffe:')) {
    errors.add([], `expected "<trust domain>/ns/<namespace>/sa/<account>" without "spiffe://", got ${shown(value)}`);
  }
}

function checkNamespace(errors: ValidationErrors, value: string): void {
  if (value.includes('/')) errors.add([], `expected a namespace, got ${shown(value)}`);
}

function checkTrustDomain(errors: ValidationErrors, value: string): void {
  if (/[/:]/.test(value)) errors.add([], `expected a trust domain, such as "cluster.local", got ${shown(value)}`);
}

function checkServiceAccount(errors: ValidationErrors, value: string): void {
  if (value.includes('*') || !/^([^/]+\/)?[^/]+$/.test(value)) {
    errors.add([], `expected "<account>" or "<namespace>/<account>" without wildcard, got ${shown(value)}`);
  }
}

function checkCidr(errors: ValidationErrors, value: string): void {
  if (!isCidr(value) || value.includes('%')) {
    errors.add([], `expected an IP address or CIDR, got ${shown(value)}`);
  }
}

function checkHost(errors: ValidationErrors, value: string): void {
  if (/[/\s]/.test(value)) errors.add([], `expected a host, with or without port, got ${shown(value)}`);
}

function checkPath(errors: ValidationErrors, value: string): void {
  if (!/^[/*]/.test(value)) errors.add([], `expected a path that begins with "/" or "*", got ${shown(value)}`);
  if (/[?#]/.test(value))
    errors.add([], `expected a path alone: without query (?) and fragment (#), got ${shown(value)}`);
  const wrong = isPathTemplate(value) ? templateError(value) : undefined;
  if (wrong !== undefined) errors.add([], `${wrong}, got ${shown(value)}`);
}

/** Attributes of conditions, with the format of their values; attributes with brackets need a name inside. */
const ATTRIBUTES: Readonly<Record<string, Check | undefined>> = {
  'source.ip': checkCidr,
  'remote.ip': checkCidr,
  'source.namespace': checkNamespace,
  'source.trustDomain': checkTrustDomain,
  'source.serviceAccount': checkServiceAccount,
  'source.principal': checkPrincipal,
  'request.auth.principal': undefined,
  'request.auth.audiences': undefined,
  'request.auth.presenter': undefined,
  'destination.ip': checkCidr,
  'destination.port': undefined,
  'connection.sni': undefined,
};
const HEADER = /^request\.headers\[([^\]]+)\]$/;
const FILTER_METADATA = /^experimental\.envoy\.filters\.[^[\]]+\[[^\]]+\]$/;
const CLAIM = /^request\.auth\.claims(\[[^\]]+\])+$/;

function checkCondition(condition: AuthorizationCondition, errors: ValidationErrors): void {
  const { key, values = [], notValues = [] } = condition;
  const header = HEADER.exec(key)?.[1];
  if (header !== undefined) checkHeaderName(errors.at('key'), header);
  else if (!Object.hasOwn(ATTRIBUTES, key) && !CLAIM.test(key) && !FILTER_METADATA.test(key)) {
    errors.add(['key'], `unknown attribute ${shown(key)}`);
  }
  if (values.length === 0 && notValues.length === 0) errors.add([], 'expected values or notValues');
  const check = Object.hasOwn(ATTRIBUTES, key) ? ATTRIBUTES[key] : undefined;
  for (const [field, items] of [
    ['values', values],
    ['notValues', notValues],
  ] as const) {
    checkValues(items, errors.at(field));
    if (check !== undefined) each(errors.at(field), items, (item, at) => check(at, item));
    if (key === 'destination.port') checkPorts(items, errors.at(field));
  }
}
