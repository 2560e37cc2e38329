/**
 * Merges gateway servers into listeners: decides which servers share a port, which of two incompatible servers takes
 * precedence, and which server each TLS server name belongs to. Listeners and routes are both generated from this plan,
 * so that they use the same route names.
 */

import { addressKey } from '../common/index.ts';
import { type MeshReader, noteAll, type Recorded, recorded } from '../reads/index.ts';
import type { GenerationFinding } from '../types.ts';
import type { GatewayView } from '../views.ts';
import { gatewayServers, type ServerKind, type ServerPlan } from './gateway-servers.ts';

export interface ListenerPlan {
  readonly port: number;
  readonly bind: string;
  /** The address of the other family, if a server names no address; undefined if another listener has it. */
  readonly extraBind: string | undefined;
  /** The port that Envoy listens on: the target port in the gateway's own service. */
  readonly bindPort: number;
  readonly family: Family;
  /** In precedence order, at least one. */
  readonly servers: readonly ServerPlan[];
}

/** The protocol of a listener's first bytes: servers of one family can share a listener. */
export type Family = 'http' | 'tls' | 'tcp';

export interface GatewayPlan {
  /** By server port, ascending; several for different bind addresses. */
  readonly listeners: ReadonlyMap<number, readonly ListenerPlan[]>;
  /** Route configuration name → its servers, ascending by name. */
  readonly routes: ReadonlyMap<string, readonly ServerPlan[]>;
  /** All valid servers, in precedence order. */
  readonly servers: readonly ServerPlan[];
  /** Servers that pass mutual TLS through by server name. */
  readonly passing: readonly ServerPlan[];
  readonly findings: ReadonlyMap<number, readonly GenerationFinding[]>;
}

/** The plan of a view; computed once per snapshot, because every unit of the view reads it. */
export function gatewayPlan(snapshot: MeshReader, view: GatewayView): GatewayPlan {
  const plans = snapshot.memos.weak<MeshReader, WeakMap<GatewayView, Recorded<GatewayPlan>>>('gateway plans');
  const ofSnapshot = plans.get(snapshot, () => new WeakMap());
  const known = ofSnapshot.get(view);
  if (known !== undefined) noteAll(known.facts);
  const { value, facts } = known ?? recorded(() => makePlan(snapshot, view));
  ofSnapshot.set(view, { value, facts });
  return value;
}

function familyOf(kind: ServerKind): Family {
  if (kind === 'http' || kind === 'tcp') return kind;
  return 'tls';
}

function makePlan(snapshot: MeshReader, view: GatewayView): GatewayPlan {
  const { servers, rejected } = gatewayServers(snapshot, view);
  const findings = new Map<number, GenerationFinding[]>();
  const report = (port: number, metric: GenerationFinding['metric'], message: string) => {
    const ofPort = findings.get(port) ?? [];
    ofPort.push({ metric, type: 'lds', unit: String(port), message });
    findings.set(port, ofPort);
  };
  for (const { port, message } of rejected) report(port, 'ctl_invalid_out_listeners', message);

  const bySocket = new Map<string, { plan: Omit<ListenerPlan, 'servers' | 'extraBind'>; servers: ServerPlan[] }>();
  for (const server of servers) {
    const { port, bind } = server;
    const family = familyOf(server.kind);
    const bindPort = view.portMap[port] ?? port;
    const socket = socketKey(bind, bindPort);
    const current = bySocket.get(socket);
    if (current === undefined) {
      bySocket.set(socket, { plan: { port, bind, bindPort, family }, servers: [server] });
    } else if (current.plan.port !== port) {
      const message = `${server.label}: port ${port} uses port ${bindPort}, as does port ${current.plan.port}`;
      report(port, 'ctl_invalid_out_listeners', message);
    } else if (current.plan.family !== family) {
      const first = `${current.plan.family} of ${current.servers[0]?.label}`;
      const message = `${server.label}: port ${port} already serves ${first}`;
      report(port, conflictMetric(current.plan.family, family), message);
    } else {
      current.servers.push(server);
    }
  }
  const listeners = [...bySocket.values()].map(({ plan, servers }) => {
    const extraBind = servers.find((server) => server.extraBind !== undefined)?.extraBind;
    const taken = bySocket.has(socketKey(extraBind ?? '', plan.bindPort));
    return { ...plan, servers, extraBind: taken ? undefined : extraBind };
  });
  const passing = listeners.flatMap((plan) => plan.servers.filter(({ kind }) => kind === 'auto-passthrough'));
  return { ...group(listeners), servers, passing, findings };
}

function socketKey(bind: string, bindPort: number): string {
  return `${addressKey(bind)}|${bindPort}`;
}

function conflictMetric(current: Family, wanted: Family): GenerationFinding['metric'] {
  if (wanted === 'http') return 'ctl_conflict_outbound_listener_http_over_current_tcp';
  if (current === 'http') return 'ctl_conflict_outbound_listener_tcp_over_current_http';
  return 'ctl_conflict_outbound_listener_tcp_over_current_tcp';
}

function group(plans: readonly ListenerPlan[]): Pick<GatewayPlan, 'listeners' | 'routes'> {
  const listeners = new Map<number, ListenerPlan[]>();
  const routes = new Map<string, ServerPlan[]>();
  for (const plan of [...plans].sort((a, b) => a.port - b.port || (a.bind < b.bind ? -1 : 1))) {
    listeners.set(plan.port, [...(listeners.get(plan.port) ?? []), plan]);
    for (const server of plan.servers) {
      if (server.routeName === '') continue;
      routes.set(server.routeName, [...(routes.get(server.routeName) ?? []), server]);
    }
  }
  return { listeners, routes: new Map([...routes].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))) };
}
