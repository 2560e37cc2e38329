/** Maps errors to gRPC statuses. Codes: https://grpc.io/docs/guides/status-codes/ */
import type { CtlError, CtlErrorCode } from './errors.ts';

const CODE_OF: Readonly<Record<CtlErrorCode, number>> = {
  invalid_argument: 3,
  deadline_exceeded: 4,
  not_found: 5,
  already_exists: 6,
  permission_denied: 7,
  resource_exhausted: 8,
  failed_precondition: 9,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
};

/** Longer messages would not fit into a header. */
const MAX_DETAILS = 1024;

/** gRPC status of an error. */
export function statusOf(error: CtlError): { readonly code: number; readonly details: string } {
  return { code: CODE_OF[error.code], details: error.oneLine().slice(0, MAX_DETAILS) };
}
