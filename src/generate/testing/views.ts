/** Views for tests of generation. */
import type { OutboundView } from '../views.ts';

/** The outbound part of a redirected sidecar in the namespace `default`. */
export function outboundView(changes: Partial<OutboundView> = {}): OutboundView {
  return {
    part: 'outbound',
    scope: 'default/',
    namespace: 'default',
    interception: 'REDIRECT',
    families: 'ipv4',
    sourceLabels: {},
    dnsDomain: 'default.svc.cluster.local',
    virtualHosts: 'inline',
    endpointNames: 'cluster',
    capabilities: { extensions: undefined, sds: false },
    ...changes,
  };
}
