/** The gRPC services of the xDS port, and the paths of their methods. */

export const ADS_SERVICE = 'envoy.service.discovery.v3.AggregatedDiscoveryService';
/** The v2 service, which Envoys before 1.20 request: refused with a message that says what to configure. */
const ADS_SERVICE_V2 = 'envoy.service.discovery.v2.AggregatedDiscoveryService';
const HEALTH_SERVICE = 'grpc.health.v1.Health';

interface AdsPaths {
  readonly sotw: string;
  readonly delta: string;
}

function adsPaths(service: string): AdsPaths {
  return { sotw: `/${service}/StreamAggregatedResources`, delta: `/${service}/DeltaAggregatedResources` };
}

export const ADS_PATHS = adsPaths(ADS_SERVICE);
export const ADS_PATHS_V2 = adsPaths(ADS_SERVICE_V2);
export const HEALTH_PATHS = { check: `/${HEALTH_SERVICE}/Check`, watch: `/${HEALTH_SERVICE}/Watch` };
