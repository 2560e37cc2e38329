/** PeerAuthentication and RequestAuthentication as admission checks them. */
import { secretInKeys, usableInlineKeys } from '../inline-keys.ts';
import { shown } from '../issues.ts';
import type { JwtRule, PeerAuthenticationSpec, RequestAuthenticationSpec } from '../schema/security.ts';
import { checkFilled, checkSelector, checkTarget, isPort, MAX_PORT } from './policy-values.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkHeaderName, checkHeaderText } from './values.ts';

const UNUSABLE_KEYS =
  'expected a JSON Web Key Set with a key of a kind that can be used: RSA (from 2048 bits), EC (P-256, P-384, P-521), Ed25519';

export function validatePeerAuthentication(spec: PeerAuthenticationSpec, faults: ValidationErrors): void {
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

export function validateRequestAuthentication(spec: RequestAuthenticationSpec, faults: ValidationErrors): void {
  checkTarget(spec, faults);
  checkSelector(faults.at('selector'), spec.selector);
  each(faults.at('jwtRules'), spec.jwtRules, checkJwtRule);
}

/** One rule about tokens, as admission checks it. */
export function checkJwtRule(rule: JwtRule, faults: ValidationErrors): void {
  if (rule.issuer === '') faults.add(['issuer'], 'expected an issuer that is not empty');
  checkFilled(rule.audiences, faults.at('audiences'));
  if (rule.jwksUri !== undefined && !isHttpUrl(rule.jwksUri)) {
    faults.add(['jwksUri'], `expected an http or https URL, got ${shown(rule.jwksUri)}`);
  }
  if (rule.jwks && rule.jwksUri) faults.add(['jwksUri'], 'expected either jwks or jwksUri');
  const secret = rule.jwks && secretInKeys(rule.jwks);
  if (secret) faults.add(['jwks'], `expected public keys only: ${secret}`);
  else if (rule.jwks && usableInlineKeys(rule.jwks) === undefined) faults.add(['jwks'], UNUSABLE_KEYS);
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
  checkFilled(rule.spaceDelimitedClaims, faults.at('spaceDelimitedClaims'));
  if (rule.timeout !== undefined && rule.timeout < 1) faults.add(['timeout'], 'expected a duration of at least 1ms');
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.hostname !== '';
}

/** Headers that requests need to be requests: what clients send in output headers is removed. */
const NO_OUTPUT = /^(:.*|host|authorization|connection|content-length|te|transfer-encoding|upgrade)$/i;

function checkOutputHeader(faults: ValidationErrors, name: string): void {
  checkHeaderName(faults, name);
  if (NO_OUTPUT.test(name)) faults.add([], `expected a header of its own, got ${shown(name)}`);
}
