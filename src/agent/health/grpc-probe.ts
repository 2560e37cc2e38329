/**
 * The gRPC health check (https://github.com/grpc/grpc/blob/master/doc/health-checking.md), as the orchestrator makes
 * it: plain text, a new connection for each check.
 */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { openGrpcClient } from '../grpc/index.ts';

export interface HealthTarget {
  readonly host: string;
  readonly port: number;
  /** Empty for the server as a whole. */
  readonly service: string;
  readonly timeoutMs: number;
}

const PATH = '/grpc.health.v1.Health/Check';
/** Maximum size of a response, a message with one number. */
const MAX_ANSWER = 1024;

/** Whether the service answers that it serves. Rejects when it cannot be reached in time. */
export async function isServing({ host, port, service, timeoutMs }: HealthTarget): Promise<boolean> {
  const { grpc } = await import('../../protobuf/agent/index.ts');
  const { HealthCheckRequest, HealthCheckResponse } = grpc.health.v1;
  const client = await openGrpcClient({ address: { host, port }, tls: undefined }, { maxMessageBytes: MAX_ANSWER });
  try {
    const request = HealthCheckRequest.encode({ service }).finish();
    const { status } = HealthCheckResponse.decode(await client.unary({ path: PATH, request, timeoutMs }));
    return status === HealthCheckResponse.ServingStatus.SERVING;
  } catch (error) {
    if (!(error instanceof CtlError)) throw new CtlError('internal', oneLineOf(error), {}, error);
    if (error.code === 'unavailable') throw error;
    return false;
  } finally {
    client.close();
  }
}
