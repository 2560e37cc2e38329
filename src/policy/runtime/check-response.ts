/**
 * Decisions as Envoy's ext_authz filter reads them.
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/auth/v3/external_auth.proto
 */
import { encode, envoy } from '../../protobuf/index.ts';
import type { Decision, HeaderChange } from './dispatcher.ts';

const { CheckResponse } = envoy.service.auth.v3;
const { APPEND_IF_EXISTS_OR_ADD, OVERWRITE_IF_EXISTS_OR_ADD } =
  envoy.config.core.v3.HeaderValueOption.HeaderAppendAction;

/** By code: the name, and the HTTP status of google/rpc/code.proto. Others are denied with 403. */
const CODES: Readonly<Record<number, readonly [name: string, http: number]>> = {
  1: ['CANCELLED', 499],
  2: ['UNKNOWN', 500],
  3: ['INVALID_ARGUMENT', 400],
  4: ['DEADLINE_EXCEEDED', 504],
  5: ['NOT_FOUND', 404],
  6: ['ALREADY_EXISTS', 409],
  7: ['PERMISSION_DENIED', 403],
  8: ['RESOURCE_EXHAUSTED', 429],
  9: ['FAILED_PRECONDITION', 400],
  10: ['ABORTED', 409],
  11: ['OUT_OF_RANGE', 400],
  12: ['UNIMPLEMENTED', 501],
  13: ['INTERNAL', 500],
  14: ['UNAVAILABLE', 503],
  15: ['DATA_LOSS', 500],
  16: ['UNAUTHENTICATED', 401],
};

/** Envoy accepts these only: `envoy.type.v3.StatusCode` has no 499. */
const KNOWN_STATUSES = new Set<number>(Object.values(envoy.type.v3.StatusCode));
const FORBIDDEN = 403;
const MAX_BODY_CHARACTERS = 1_000;

const ALLOWED = encode(CheckResponse, { status: { code: 0 }, okResponse: {} });

export function encodeDecision({ status, handler, requestHeaders, responseHeaders }: Decision): Uint8Array {
  if (status.code === 0) {
    if (requestHeaders.length + responseHeaders.length === 0) return ALLOWED;
    const okResponse = {
      headers: requestHeaders.flatMap(options),
      headersToRemove: requestHeaders.filter(({ operation }) => operation === 'REMOVE').map(({ name }) => name),
      responseHeadersToAdd: responseHeaders.flatMap(options),
    };
    return encode(CheckResponse, { status: { code: 0 }, okResponse });
  }
  const [name, http] = CODES[status.code] ?? ['PERMISSION_DENIED', FORBIDDEN];
  const code = (KNOWN_STATUSES.has(http) ? http : FORBIDDEN) as envoy.type.v3.StatusCode;
  const body = [name, handler, status.message].filter((part) => part !== undefined && part !== '').join(':');
  return encode(CheckResponse, {
    status: { code: status.code, message: status.message.slice(0, MAX_BODY_CHARACTERS) },
    deniedResponse: { status: { code }, body: body.slice(0, MAX_BODY_CHARACTERS) },
  });
}

/** Several values of a replaced header are one list: Envoy replaces with one value only (RFC 9110 section 5.3). */
function options({ name: key, operation, values }: HeaderChange): envoy.config.core.v3.HeaderValueOption.Input[] {
  if (operation === 'REMOVE') return [];
  if (operation === 'REPLACE')
    return [{ header: { key, value: values.join(',') }, appendAction: OVERWRITE_IF_EXISTS_OR_ADD }];
  return values.map((value) => ({ header: { key, value }, appendAction: APPEND_IF_EXISTS_OR_ADD }));
}
