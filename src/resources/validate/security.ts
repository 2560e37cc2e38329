/** Validates PeerAuthentication and RequestAuthentication. */
import { secretInKeys, usableInlineKeys } from '../parsing/inline-keys.ts';
import { shown } from '../parsing/issues.ts';
import type { JwtRule, PeerAuthenticationSpec, RequestAuthenticationSpec } from '../schema/security.ts';
import { checkFilled, checkSelector, checkTarget, isPort, MAX_PORT } from './policy-values.ts';
import { each, type ValidationErrors } from './validation-errors.ts';
import { checkHeaderName, checkHeaderText } from './values.ts';

const UNUSABLE_KEYS =
  'expected a JSON Web Key Set with a usable key: RSA (2048 bits or more), EC (P-256, P-384, P-521), Ed25519';

export function validatePeerAuthentication(spec: PeerAuthenticationSpec, errors: ValidationErrors): void {
  checkSelector(errors.at('selector'), spec.selector);
  const { portLevelMtls } = spec;
  if (portLevelMtls === undefined) return;
  if (Object.keys(spec.selector?.matchLabels ?? {}).length === 0) {
    errors.add(['portLevelMtls'], 'requires a selector with labels: ports belong to workloads');
  }
  if (Object.keys(portLevelMtls).length === 0) errors.add(['portLevelMtls'], 'expected at least one port');
  for (const port of Object.keys(portLevelMtls)) {
    if (!isPort(port)) errors.add(['portLevelMtls', port], `expected a port from 1 to ${MAX_PORT} as key`);
  }
}

export function validateRequestAuthentication(spec: RequestAuthenticationSpec, errors: ValidationErrors): void {
  checkTarget(spec, errors);
  checkSelector(errors.at('selector'), spec.selector);
  errors.at('jwtRules').atMost('jwtRules', spec.jwtRules?.length);
  each(errors.at('jwtRules'), spec.jwtRules, checkJwtRule);
}

/** Validates one rule about tokens. */
export function checkJwtRule(rule: JwtRule, errors: ValidationErrors): void {
  if (rule.issuer === '') errors.add(['issuer'], 'expected an issuer that is not empty');
  if (rule.issuer === undefined && !rule.jwksUri) {
    errors.add(['issuer'], 'required when jwksUri is not set');
  }
  checkFilled(rule.audiences, errors.at('audiences'));
  if (rule.jwksUri !== undefined && !isHttpUrl(rule.jwksUri)) {
    errors.add(['jwksUri'], `expected an http or https URL, got ${shown(rule.jwksUri)}`);
  }
  if (rule.jwks && rule.jwksUri) errors.add(['jwksUri'], 'expected either jwks or jwksUri');
  const secret = rule.jwks && secretInKeys(rule.jwks);
  if (secret) errors.add(['jwks'], `expected public keys only: ${secret}`);
  else if (rule.jwks && usableInlineKeys(rule.jwks) === undefined) errors.add(['jwks'], UNUSABLE_KEYS);
  each(errors.at('fromHeaders'), rule.fromHeaders, (from, at) => {
    checkHeaderName(at.at('name'), from.name);
    checkHeaderText(at.at('prefix'), from.prefix);
  });
  checkFilled(rule.fromParams, errors.at('fromParams'));
  checkFilled(rule.fromCookies, errors.at('fromCookies'));
  if (rule.outputPayloadToHeader) checkOutputHeader(errors.at('outputPayloadToHeader'), rule.outputPayloadToHeader);
  each(errors.at('outputClaimToHeaders'), rule.outputClaimToHeaders, (output, at) => {
    checkOutputHeader(at.at('header'), output.header);
    if (output.claim === '') at.add(['claim'], 'expected a claim that is not empty');
  });
  checkFilled(rule.spaceDelimitedClaims, errors.at('spaceDelimitedClaims'));
  if (rule.timeout !== undefined && rule.timeout < 1) errors.add(['timeout'], 'expected a duration of at least 1ms');
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.hostname !== '';
}

/** Headers that make a request valid: clients' values of output headers are removed. */
const NO_OUTPUT = /^(:.*|host|authorization|connection|content-length|te|transfer-encoding|upgrade)$/i;

function checkOutputHeader(errors: ValidationErrors, name: string): void {
  checkHeaderName(errors, name);
  if (NO_OUTPUT.test(name))
    errors.add([], `expected a header that neither HTTP nor authentication needs, got ${shown(name)}`);
}
