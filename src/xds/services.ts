/** The gRPC services of the xDS port. Messages stay bytes: they are decoded where they can be answered with a clear status. */
import type { MethodDefinition } from '@grpc/grpc-js';

export const ADS_SERVICE = 'envoy.service.discovery.v3.AggregatedDiscoveryService';
/** Spoken by Envoys before 1.20; they get an answer that says what to change. */
export const ADS_SERVICE_V2 = 'envoy.service.discovery.v2.AggregatedDiscoveryService';
export const HEALTH_SERVICE = 'grpc.health.v1.Health';

function asIs(bytes: Buffer): Buffer {
  return bytes;
}

function method(
  service: string,
  name: string,
  requestStream: boolean,
  responseStream: boolean,
): MethodDefinition<Buffer, Buffer> {
  return {
    path: `/${service}/${name}`,
    requestStream,
    responseStream,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}

function ads(service: string) {
  return {
    StreamAggregatedResources: method(service, 'StreamAggregatedResources', true, true),
    DeltaAggregatedResources: method(service, 'DeltaAggregatedResources', true, true),
  };
}

export const ADS_METHODS = ads(ADS_SERVICE);
export const ADS_METHODS_V2 = ads(ADS_SERVICE_V2);
export const HEALTH_METHODS = {
  Check: method(HEALTH_SERVICE, 'Check', false, false),
  Watch: method(HEALTH_SERVICE, 'Watch', false, true),
};
