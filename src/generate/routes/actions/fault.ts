/** Fault injection of a route, as configuration of Envoy's fault filter for that route. */
import { envoy, type google, packAny } from '../../../protobuf/index.ts';
import type { FaultAbort, FaultDelay, HttpRoute } from '../../../resources/index.ts';
import { toDuration } from '../../common/index.ts';
import { fractionalPercent } from './percent.ts';

const { HTTPFault } = envoy.extensions.filters.http.fault.v3;

type DelayMessage = envoy.extensions.filters.common.fault.v3.FaultDelay.Input;
type AbortMessage = envoy.extensions.filters.http.fault.v3.FaultAbort.Input;

/** https://grpc.github.io/grpc/core/md_doc_statuscodes.html, in the order of the numbers. */
const GRPC_STATUSES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
];

/** Undefined when there is nothing to inject. Faults without a percentage affect no request. */
export function faultConfig(fault: NonNullable<HttpRoute['fault']>): google.protobuf.Any.Input | undefined {
  const delay = fault.delay === undefined ? undefined : delayMessage(fault.delay);
  const abort = fault.abort === undefined ? undefined : abortMessage(fault.abort);
  if (delay === undefined && abort === undefined) return undefined;
  return packAny(HTTPFault, { ...(delay ? { delay } : {}), ...(abort ? { abort } : {}) });
}

function delayMessage({ fixedDelay, percentage }: FaultDelay): DelayMessage | undefined {
  if (fixedDelay === undefined || fixedDelay <= 0) return undefined;
  return { fixedDelay: toDuration(fixedDelay), percentage: fractionalPercent(percentage ?? { value: 0 }) };
}

function abortMessage({ httpStatus, grpcStatus, percentage }: FaultAbort): AbortMessage | undefined {
  const share = { percentage: fractionalPercent(percentage ?? { value: 0 }) };
  if (httpStatus !== undefined) {
    return httpStatus >= 200 && httpStatus <= 599 ? { httpStatus, ...share } : undefined;
  }
  const code = grpcStatus === undefined ? -1 : grpcStatusCode(grpcStatus);
  return code < 0 ? undefined : { grpcStatus: code, ...share };
}

/** The status code by its name or number; -1 for any other string. */
function grpcStatusCode(status: string): number {
  return /^\d{1,2}$/.test(status) ? Number(status) : GRPC_STATUSES.indexOf(status.toUpperCase());
}
