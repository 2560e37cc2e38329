/** PeerAuthentication, RequestAuthentication and AuthorizationPolicy as admission checks them. */
import { usableInlineKeys } from '../inline-keys.ts';
import { shown } from '../issues.ts';
import type {
  AuthorizationCondition,
  AuthorizationOperation,
  AuthorizationPolicySpec,
  AuthorizationRule,
  AuthorizationSource,
  JwtRule,
  PeerAuthenticationSpec,
  RequestAuthenticationSpec,
} from '../schema/security.ts';
import { each, type Faults } from './faults.ts';
import { checkHeaderName, checkHeaderText, checkLabels, isCidr } from './values.ts';

const MAX_PORT = 65_535;
const UNUSABLE_KEYS =
  'expected a JSON Web Key Set with a key of a kind that can be used: RSA (from 2048 bits), EC (P-256, P-384, P-521), Ed25519, oct';

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>> | undefined;
}

function checkSelector(faults: Faults, selector: Selector | undefined): void {
  for (const [key, value] of Object.entries(selector?.matchLabels ?? {})) {
    if (`${key}${value}`.includes('*')) faults.add(['matchLabels', key], 'expected a label without wildcard');
  }
  checkLabels(faults.at('matchLabels'), selector?.matchLabels);
}

/** A policy names its workloads in one way. */
function checkTarget(
  spec: { selector?: unknown; targetRef?: unknown; targetRefs?: readonly unknown[] | undefined },
  faults: Faults,
): void {
  const ways = (['selector', 'targetRef', 'targetRefs'] as const).filter((field) => spec[field] !== undefined);
  const [, second] = ways;
  if (second !== undefined) faults.add([second], `expected only one of ${ways.join(', ')}`);
}

export function validatePeerAuthentication(spec: PeerAuthenticationSpec, faults: Faults): void {
  checkSelector(faults.at('selector'), spec.selector);
  const { portLevelMtls } = spec;
  if (portLevelMtls === undefined) return;
  if (Object.keys(spec.selector?.matchLabels ?? {}).length === 0) {
    faults.add(['portLevelMtls'], 'expected a selector with labels beside it: ports belong to workloads');
  }
  if (Object.keys(portLevelMtls).length === 0) faults.add(['portLevelMtls'], 'expected at least one port');
  for (const port of Object.keys(portLevelMtls)) {
    if (!isPort(port)) faults.add(['portLevelMtls', port], `expected a port from 1 to ${MAX_PORT} as key`);
  }
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= MAX_PORT;
}

export function validateRequestAuthentication(spec: RequestAuthenticationSpec, faults: Faults): void {
  checkTarget(spec, faults);
  checkSelector(faults.at('selector'), spec.selector);
  each(faults.at('jwtRules'), spec.jwtRules, checkJwtRule);
}

function checkJwtRule(rule: JwtRule, faults: Faults): void {
  if (rule.issuer === '') faults.add(['issuer'], 'expected an issuer that is not empty');
  checkFilled(rule.audiences, faults.at('audiences'));
  if (rule.jwksUri !== undefined && !isHttpUrl(rule.jwksUri)) {
    faults.add(['jwksUri'], `expected an http or https URL, got ${shown(rule.jwksUri)}`);
  }
  if (rule.jwks && rule.jwksUri) faults.add(['jwksUri'], 'expected either jwks or jwksUri');
  if (rule.jwks && usableInlineKeys(rule.jwks) === undefined) faults.add(['jwks'], UNUSABLE_KEYS);
  each(faults.at('fromHeaders'), rule.fromHeaders, (from, at) => {
    checkHeaderName(at.at('name'), from.name);
    checkHeaderText(at.at('prefix'), from.prefix);
  });
  checkFilled(rule.fromParams, faults.at('fromParams'));
  checkFilled(rule.fromCookies, faults.at('fromCookies'));
  if (rule.outputPayloadToHeader) checkOutputHeader(faults.at('outputPayloadToHeader'), rule.outputPayloadToHeader);
  each(faults.at('outputClaimToHeaders'), rule.outputClaimToHeaders, (output, at) => {
    checkOutputHeader(at.at('header'), output.header);
    if (output.claim === '') at.add(['claim'], 'expected a claim that is not empty');
  });
  if (rule.timeout !== undefined && rule.timeout < 1) faults.add(['timeout'], 'expected a duration of at least 1ms');
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.hostname !== '';
}

/** What clients send there is removed, so it must be no header that requests need. */
function checkOutputHeader(faults: Faults, name: string): void {
  checkHeaderName(faults, name);
  if (/^(:.*|host|authorization)$/i.test(name)) faults.add([], `expected a header of its own, got ${shown(name)}`);
}

/** Lists of strings: an empty string in one matches nothing and hides a mistake. */
function checkFilled(items: readonly string[] | undefined, faults: Faults): void {
  each(faults, items, (item, at) => {
    if (item === '') at.add([], 'expected a value that is not empty');
  });
}

export function validateAuthorizationPolicy(spec: AuthorizationPolicySpec, faults: Faults): void {
  checkTarget(spec, faults);
  checkSelector(faults.at('selector'), spec.selector);
  const { action = 'ALLOW', rules = [] } = spec;
  if ((action === 'DENY' || action === 'CUSTOM') && rules.length === 0) {
    faults.add(['rules'], `required for action ${action}; without rules it never matches ("rules: [{}]" always does)`);
  }
  if (action === 'CUSTOM' && !spec.provider?.name) faults.add(['provider', 'name'], 'required for action CUSTOM');
  if (action !== 'CUSTOM' && spec.provider !== undefined) faults.add(['provider'], 'expected only with action CUSTOM');
  each(faults.at('rules'), rules, checkRule);
}

function checkRule(rule: AuthorizationRule, faults: Faults): void {
  for (const field of ['from', 'to'] as const) {
    if (rule[field]?.length === 0) faults.add([field], 'expected at least one item, or none of it at all');
  }
  each(faults.at('from'), rule.from, ({ source }, at) => checkSource(source, at.at('source')));
  each(faults.at('to'), rule.to, ({ operation }, at) => checkOperation(operation, at.at('operation')));
  each(faults.at('when'), rule.when, checkCondition);
}

function checkLists(lists: Readonly<Record<string, readonly string[] | undefined>>, faults: Faults): void {
  const filled = Object.entries(lists).filter(([, items]) => items !== undefined && items.length > 0);
  if (filled.length === 0) faults.add([], 'expected at least one field with a value');
  for (const [field, items] of Object.entries(lists)) checkFilled(items, faults.at(field));
}

function checkSource(source: AuthorizationSource, faults: Faults): void {
  checkLists(source, faults);
  for (const field of ['ipBlocks', 'notIpBlocks', 'remoteIpBlocks', 'notRemoteIpBlocks'] as const) {
    checkCidrs(source[field], faults.at(field));
  }
}

function checkCidrs(items: readonly string[] | undefined, faults: Faults): void {
  each(faults, items, (item, at) => {
    if (!isCidr(item)) at.add([], `expected an IP address or CIDR, got ${shown(item)}`);
  });
}

function checkPorts(items: readonly string[] | undefined, faults: Faults): void {
  each(faults, items, (item, at) => {
    if (!isPort(item)) at.add([], `expected a port from 1 to ${MAX_PORT}, got ${shown(item)}`);
  });
}

function checkOperation(operation: AuthorizationOperation, faults: Faults): void {
  checkLists(operation, faults);
  checkPorts(operation.ports, faults.at('ports'));
  checkPorts(operation.notPorts, faults.at('notPorts'));
}

/** Attributes a condition may name; those with brackets take a name inside. */
const ATTRIBUTES: ReadonlySet<string> = new Set([
  'source.ip',
  'remote.ip',
  'source.namespace',
  'source.serviceAccount',
  'source.principal',
  'source.user',
  'request.auth.principal',
  'request.auth.audiences',
  'request.auth.presenter',
  'destination.ip',
  'destination.port',
  'destination.user',
  'connection.sni',
]);
const NAMED_ATTRIBUTE =
  /^(request\.headers\[[^\]]+\]|request\.auth\.claims(\[[^\]]+\])+|experimental\.envoy\.filters\..+)$/;
const IP_ATTRIBUTES: ReadonlySet<string> = new Set(['source.ip', 'remote.ip', 'destination.ip']);

function checkCondition(condition: AuthorizationCondition, faults: Faults): void {
  const { key, values = [], notValues = [] } = condition;
  if (!ATTRIBUTES.has(key) && !NAMED_ATTRIBUTE.test(key)) faults.add(['key'], `unknown attribute ${shown(key)}`);
  if (values.length === 0 && notValues.length === 0) faults.add([], 'expected values or notValues');
  for (const [field, items] of [
    ['values', values],
    ['notValues', notValues],
  ] as const) {
    checkFilled(items, faults.at(field));
    if (IP_ATTRIBUTES.has(key)) checkCidrs(items, faults.at(field));
    if (key === 'destination.port') checkPorts(items, faults.at(field));
  }
}
