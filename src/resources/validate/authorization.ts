/**
 * AuthorizationPolicy as admission checks it. A value that can match nothing is refused: in a rule that keeps out it
 * would guard nothing, and nobody would see it.
 *
 * A star stands for the rest of a value at its beginning or its end; anywhere else it is a letter like any other.
 */
import { shown } from '../issues.ts';
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

type Check = (faults: ValidationErrors, value: string) => void;

export function validateAuthorizationPolicy(spec: AuthorizationPolicySpec, faults: ValidationErrors): void {
  checkTarget(spec, faults);
  checkSelector(faults.at('selector'), spec.selector);
  const { action = 'ALLOW', rules = [] } = spec;
  if ((action === 'DENY' || action === 'CUSTOM') && rules.length === 0) {
    faults.add(['rules'], `required for action ${action}; without rules it never matches ("rules: [{}]" always does)`);
  }
  if (action === 'CUSTOM' && !spec.provider?.name) faults.add(['provider', 'name'], 'required for action CUSTOM');
  if (action !== 'CUSTOM' && spec.provider !== undefined) faults.add(['provider'], 'expected only with action CUSTOM');
  each(faults.at('rules'), rules, checkRule);
  if (action === 'CUSTOM') each(faults.at('rules'), rules, checkKnownBeforeTokens);
}

function checkRule(rule: AuthorizationRule, faults: ValidationErrors): void {
  for (const field of ['from', 'to'] as const) {
    if (rule[field]?.length === 0) faults.add([field], 'expected at least one item, or none of it at all');
  }
  each(faults.at('from'), rule.from, ({ source }, at) => checkSource(source, at.at('source')));
  each(faults.at('to'), rule.to, ({ operation }, at) => checkOperation(operation, at.at('operation')));
  each(faults.at('when'), rule.when, checkCondition);
}

/** External authorizers are asked before tokens are looked at. */
function checkKnownBeforeTokens({ from, when }: AuthorizationRule, faults: ValidationErrors): void {
  const message = 'not known yet when an authorizer is asked (action CUSTOM): tokens are looked at afterwards';
  each(faults.at('from'), from, ({ source }, at) => {
    for (const field of ['requestPrincipals', 'notRequestPrincipals'] as const) {
      if (source[field] !== undefined) at.add(['source', field], message);
    }
  });
  each(faults.at('when'), when, ({ key }, at) => {
    if (key.startsWith('request.auth.')) at.add(['key'], message);
  });
}

function checkLists(lists: Readonly<Record<string, readonly string[] | undefined>>, faults: ValidationErrors): void {
  const filled = Object.entries(lists).filter(([, items]) => items !== undefined && items.length > 0);
  if (filled.length === 0) faults.add([], 'expected at least one field with a value');
  for (const [field, items] of Object.entries(lists)) checkValues(items, faults.at(field));
}

function checkValues(items: readonly string[] | undefined, faults: ValidationErrors): void {
  checkFilled(items, faults);
  each(faults, items, (item, at) => {
    if (item.length > 1 && item.startsWith('*') && item.endsWith('*')) {
      at.add([], `expected a star at one end only (the other would be a letter), got ${shown(item)}`);
    }
  });
}

/** Checks a field and its opposite. */
function checkBoth<Name extends string>(
  lists: Readonly<Partial<Record<Name, readonly string[] | undefined>>>,
  names: readonly Name[],
  faults: ValidationErrors,
  check: Check,
): void {
  for (const name of names) each(faults.at(name), lists[name], (item, at) => check(at, item));
}

function checkSource(source: AuthorizationSource, faults: ValidationErrors): void {
  checkLists(source, faults);
  checkBoth(source, ['principals', 'notPrincipals'], faults, checkPrincipal);
  checkBoth(source, ['namespaces', 'notNamespaces'], faults, checkNamespace);
  checkBoth(source, ['serviceAccounts', 'notServiceAccounts'], faults, checkServiceAccount);
  checkBoth(source, ['ipBlocks', 'notIpBlocks', 'remoteIpBlocks', 'notRemoteIpBlocks'], faults, checkCidr);
}

function checkOperation(operation: AuthorizationOperation, faults: ValidationErrors): void {
  checkLists(operation, faults);
  checkPorts(operation.ports, faults.at('ports'));
  checkPorts(operation.notPorts, faults.at('notPorts'));
  checkBoth(operation, ['hosts', 'notHosts'], faults, checkHost);
  checkBoth(operation, ['paths', 'notPaths'], faults, checkPath);
}

function checkPrincipal(faults: ValidationErrors, value: string): void {
  if (value.startsWith('spiffe:')) {
    faults.add([], `expected "<trust domain>/ns/<namespace>/sa/<account>" without "spiffe://", got ${shown(value)}`);
  }
}

function checkNamespace(faults: ValidationErrors, value: string): void {
  if (value.includes('/')) faults.add([], `expected a namespace, got ${shown(value)}`);
}

function checkServiceAccount(faults: ValidationErrors, value: string): void {
  if (value.includes('*') || !/^([^/]+\/)?[^/]+$/.test(value)) {
    faults.add([], `expected "<account>" or "<namespace>/<account>" without wildcard, got ${shown(value)}`);
  }
}

function checkCidr(faults: ValidationErrors, value: string): void {
  if (!isCidr(value) || value.includes('%')) {
    faults.add([], `expected an IP address or CIDR, got ${shown(value)}`);
  }
}

function checkHost(faults: ValidationErrors, value: string): void {
  if (/[/\s]/.test(value)) faults.add([], `expected a host, with or without port, got ${shown(value)}`);
}

function checkPath(faults: ValidationErrors, value: string): void {
  if (!/^[/*]/.test(value)) faults.add([], `expected a path that begins with "/" or "*", got ${shown(value)}`);
  if (/[?#]/.test(value))
    faults.add([], `expected a path alone: without query (?) and fragment (#), got ${shown(value)}`);
  if (/\{\*{1,2}\}/.test(value)) {
    faults.add([], `expected a path without templates ({*}, {**}): they are not served, got ${shown(value)}`);
  }
}

/** Attributes a condition may name, with what their values have to be; those with brackets take a name inside. */
const ATTRIBUTES: Readonly<Record<string, Check | undefined>> = {
  'source.ip': checkCidr,
  'remote.ip': checkCidr,
  'source.namespace': checkNamespace,
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
const CLAIM = /^request\.auth\.claims(\[[^\]]+\])+$/;

function checkCondition(condition: AuthorizationCondition, faults: ValidationErrors): void {
  const { key, values = [], notValues = [] } = condition;
  const header = HEADER.exec(key)?.[1];
  if (header !== undefined) checkHeaderName(faults.at('key'), header);
  else if (!Object.hasOwn(ATTRIBUTES, key) && !CLAIM.test(key)) {
    faults.add(['key'], `unknown attribute ${shown(key)}`);
  }
  if (values.length === 0 && notValues.length === 0) faults.add([], 'expected values or notValues');
  const check = Object.hasOwn(ATTRIBUTES, key) ? ATTRIBUTES[key] : undefined;
  for (const [field, items] of [
    ['values', values],
    ['notValues', notValues],
  ] as const) {
    checkValues(items, faults.at(field));
    if (check !== undefined) each(faults.at(field), items, (item, at) => check(at, item));
    if (key === 'destination.port') checkPorts(items, faults.at(field));
  }
}
