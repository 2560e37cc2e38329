/** The names of ports that matches of EnvoyFilters refer to. */
import { addressedScope } from '../common/index.ts';
import { gatewayPlan } from '../listener-plans/index.ts';
import type { MeshReader } from '../reads/index.ts';
import type { EnvoyView, GatewayView, InboundView, OutboundView } from '../views.ts';

/** Whether a service, a Gateway's server or a Sidecar's listener gives this name to a port. Case does not matter. */
export type IsNamedPort = (port: number, name: string) => boolean;

/**
 * Names for the ports of a view's listeners: outbound the ports of services, inbound those of the workload. The mesh is
 * not read until the first call.
 */
export function namedPorts(snapshot: MeshReader, view: EnvoyView): IsNamedPort {
  return (port, name) => {
    const wanted = name.toLowerCase();
    return namesOf(snapshot, view, port).some((each) => each?.toLowerCase() === wanted);
  };
}

function namesOf(snapshot: MeshReader, view: EnvoyView, port: number): readonly (string | undefined)[] {
  switch (view.part) {
    case 'outbound':
      return outboundNames(snapshot, view, port);
    case 'inbound':
      return inboundNames(snapshot, view, port);
    case 'gateway':
      return gatewayNames(snapshot, view, port);
  }
}

function outboundNames(snapshot: MeshReader, view: OutboundView, port: number): readonly (string | undefined)[] {
  const scope = addressedScope(snapshot, view);
  const egress = scope?.egress.map((each) => each.port).filter((each) => each?.number === port) ?? [];
  const services = scope?.services.onPort(port) ?? [];
  return [...egress.map((each) => each?.name), ...services.map((entry) => entry.port.name)];
}

function inboundNames(snapshot: MeshReader, view: InboundView, port: number): readonly (string | undefined)[] {
  const ingress = snapshot.scopeById(view.scope)?.ingress ?? [];
  const own = view.ports.filter(({ targetPort }) => targetPort === port).map(({ portName }) => portName);
  return [...own, ...ingress.filter((each) => each.port.number === port).map((each) => each.port.name)];
}

function gatewayNames(snapshot: MeshReader, view: GatewayView, port: number): readonly (string | undefined)[] {
  const plans = [...gatewayPlan(snapshot, view).listeners.values()].flat();
  return plans
    .filter(({ bindPort }) => bindPort === port)
    .flatMap(({ servers }) => servers.map((each) => each.portName));
}
