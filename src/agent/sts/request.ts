/** Reads and checks the parameters of a token exchange (RFC 8693 section 2.1), as a form or as JSON. */
import { isObject } from '../../core/objects.ts';
import {
  ACCESS_TOKEN_TYPE,
  type ExchangeRequest,
  ID_TOKEN_TYPE,
  JWT_TYPE,
  OAuthError,
  TOKEN_EXCHANGE_GRANT,
} from '../credentials/index.ts';

const FORM = 'application/x-www-form-urlencoded';
const JSON_TYPE = 'application/json';

/** Types that subject and actor tokens may have. */
const TOKEN_TYPES: readonly string[] = [JWT_TYPE, ID_TOKEN_TYPE, ACCESS_TOKEN_TYPE];

/** Parameters that authenticate a client (RFC 6749 section 2.3.1, RFC 7521 section 4.2). */
const CLIENT_CREDENTIALS = ['client_secret', 'client_assertion'] as const;

type Parameters = ReadonlyMap<string, readonly string[]>;

/** Throws OAuthError for a request that is not valid. */
export function exchangeRequest(contentType: string | undefined, body: string): ExchangeRequest {
  const parameters = parseParameters(contentType, body);
  if (CLIENT_CREDENTIALS.some((name) => one(parameters, name) !== ''))
    throw new OAuthError('invalid_client', 'this server does not authenticate clients');
  const grant = needed(parameters, 'grant_type');
  if (grant !== TOKEN_EXCHANGE_GRANT)
    throw new OAuthError('unsupported_grant_type', `expected grant_type ${TOKEN_EXCHANGE_GRANT}`);
  const request: ExchangeRequest = {
    subjectToken: readTokenParameter(parameters, 'subject_token'),
    subjectTokenType: tokenType(parameters, 'subject_token_type'),
    ...readActor(parameters),
    audience: target(parameters, 'audience'),
    resource: target(parameters, 'resource'),
    scope: one(parameters, 'scope'),
    requestedTokenType: one(parameters, 'requested_token_type'),
  };
  checkScope(request.scope);
  if (request.audience !== '' && !/^[\x20-\x7e]+$/.test(request.audience))
    throw new OAuthError('invalid_target', 'audience must be ASCII text');
  if (request.resource !== '' && (!URL.canParse(request.resource) || request.resource.includes('#')))
    throw new OAuthError('invalid_target', 'resource must be an absolute URI without a fragment');
  if (request.requestedTokenType !== '' && !TOKEN_TYPES.includes(request.requestedTokenType))
    throw invalid('requested_token_type', `one of ${TOKEN_TYPES.join(', ')}`);
  return request;
}

function parseParameters(contentType: string | undefined, body: string): Parameters {
  const [type = ''] = (contentType ?? '').split(';');
  switch (type.trim().toLowerCase()) {
    case FORM:
      return formParameters(body);
    case JSON_TYPE:
      return jsonParameters(body);
    default:
      throw new OAuthError('invalid_request', `expected Content-Type ${FORM} or ${JSON_TYPE}`);
  }
}

/** RFC 6749 section 3.2: a parameter without a value counts as not given. */
function formParameters(body: string): Parameters {
  const parameters = new Map<string, string[]>();
  for (const [name, value] of new URLSearchParams(body)) {
    if (value === '') continue;
    const known = parameters.get(name);
    if (known === undefined) parameters.set(name, [value]);
    else known.push(value);
  }
  return parameters;
}

function jsonParameters(body: string): Parameters {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    // The messages of parsers quote the input.
    throw new OAuthError('invalid_request', 'the body is not JSON');
  }
  if (!isObject(value)) throw new OAuthError('invalid_request', 'the body is not a JSON object');
  const parameters = new Map<string, readonly string[]>();
  for (const [name, each] of Object.entries(value)) {
    const values = [each].flat().filter((item) => item !== '' && item !== null);
    if (values.length === 0) continue;
    if (!values.every((item) => typeof item === 'string')) throw invalid('each parameter', 'text');
    parameters.set(name, values);
  }
  return parameters;
}

/** The value of a parameter; '' without it. RFC 6749 section 3.2: parameters must not be repeated. */
function one(parameters: Parameters, name: string): string {
  const [value = '', ...more] = parameters.get(name) ?? [];
  if (more.length > 0) throw new OAuthError('invalid_request', `${name} is set more than once`);
  return value;
}

/** A target may be given several times (RFC 8693 section 2.1), but a token here is for one target. */
function target(parameters: Parameters, name: string): string {
  const [value = '', ...more] = parameters.get(name) ?? [];
  if (more.length > 0) throw new OAuthError('invalid_target', `only one ${name} is supported`);
  return value;
}

function needed(parameters: Parameters, name: string): string {
  const value = one(parameters, name);
  if (value === '') throw new OAuthError('invalid_request', `${name} is missing`);
  return value;
}

function readTokenParameter(parameters: Parameters, name: string): string {
  const value = needed(parameters, name).trim();
  if (!/^[\x21-\x7e]+$/.test(value)) throw invalid(name, 'a token');
  return value;
}

function tokenType(parameters: Parameters, name: string): string {
  const value = needed(parameters, name);
  if (!TOKEN_TYPES.includes(value)) throw invalid(name, `one of ${TOKEN_TYPES.join(', ')}`);
  return value;
}

function readActor(parameters: Parameters): Pick<ExchangeRequest, 'actorToken' | 'actorTokenType'> {
  if (one(parameters, 'actor_token') !== '')
    return {
      actorToken: readTokenParameter(parameters, 'actor_token'),
      actorTokenType: tokenType(parameters, 'actor_token_type'),
    };
  if (one(parameters, 'actor_token_type') !== '')
    throw new OAuthError('invalid_request', 'actor_token_type without actor_token');
  return { actorToken: '', actorTokenType: '' };
}

/** RFC 6749 section 3.3. */
function checkScope(scope: string): void {
  if (scope === '' || /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/.test(scope)) return;
  throw new OAuthError('invalid_scope', 'scope must be names with single spaces between them');
}

function invalid(name: string, expected: string): OAuthError {
  return new OAuthError('invalid_request', `invalid value of ${name}: expected ${expected}`);
}
