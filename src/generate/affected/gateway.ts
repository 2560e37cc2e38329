/** What a change means for a gateway. */
import type { ChangeSet, MeshSnapshot, ResolvedVirtualService } from '../../model/types.ts';
import { type Kind, resourceKey } from '../../resources/types.ts';
import { hostsUsedAnew } from '../clusters/index.ts';
import { gatewaySecretUnits, missingByPort } from '../gateways/index.ts';
import { virtualServicesAbout } from '../indexes/index.ts';
import { routesConnections } from '../listeners/index.ts';
import { passingPorts } from '../plans/index.ts';
import { changesPolicies } from '../policies/index.ts';
import { hostsWithCredentials, secretsBehind } from '../secrets/index.ts';
import type { GatewayView, UnitSelection } from '../types.ts';
import { ALL_UNITS, Marks } from './marks.ts';
import { markPeers, readOutsideClusters } from './outbound.ts';

export function affectedGateway(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  change: ChangeSet,
  view: GatewayView,
): UnitSelection | undefined {
  const scopes = [previous.gatewayScope(view.namespace), next.gatewayScope(view.namespace)] as const;
  const scopeChange = change.scopes.get(scopes[1].id);
  if (scopeChange?.everything === true || (scopes[0] !== scopes[1] && scopeChange === undefined)) return ALL_UNITS;
  const marks = new Marks();
  const mark = (virtualService: ResolvedVirtualService) => {
    marks.all('rds');
    if (routesConnections(virtualService)) marks.all('lds');
  };
  const markUsersOf = (host: string) => {
    for (const snapshot of [previous, next]) {
      for (const gateway of view.gateways) {
        for (const about of virtualServicesAbout(snapshot.virtualServicesOfGateway(gateway), host)) mark(about);
      }
    }
  };
  const passing = [...passingPorts(previous, view), ...passingPorts(next, view)];
  const markHost = (host: string) => {
    marks.add('cds', host);
    // Names of services, and of their subsets, stand in the listeners that pass connections on.
    for (const port of passing) marks.listenerPort(port);
  };
  for (const host of scopeChange?.hosts ?? []) {
    markHost(host);
    markUsersOf(host);
  }
  for (const host of scopeChange?.destinationRules ?? []) {
    markHost(host);
    if (scopes.some((scope) => readOutsideClusters(scope.destinationRule(host), view))) markUsersOf(host);
  }
  for (const gateway of view.gateways) {
    if (change.configs.has(gatewayKey(gateway))) {
      if (view.credentialed.includes(gateway)) marks.all('sds');
      marks.all('lds');
      marks.all('rds');
      // Clusters of connections that are passed on come and go with the servers that do so.
      if (passing.length > 0) marks.all('cds');
    }
  }
  markSecrets(marks, previous, next, change, view);
  // Which secrets clusters ask for: names of few, and mostly of none.
  if (
    scopeChange !== undefined &&
    (hostsWithCredentials(previous, view).size > 0 || hostsWithCredentials(next, view).size > 0)
  )
    marks.all('sds');
  if (changesPolicies(previous, next, change, view)) marks.all('lds');
  for (const host of hostsUsedAnew(previous, next, view)) marks.add('cds', host);
  for (const virtualService of changedVirtualServices(previous, next, change, view)) mark(virtualService);
  for (const key of change.endpoints) {
    for (const service of [previous.services.get(key), next.services.get(key)]) {
      if (service?.resolution !== 'dns') continue;
      if (scopes.some((scope) => scope.services.get(service.hostname)?.key === key)) marks.add('cds', service.hostname);
    }
  }
  if (view.capabilities.sds) markPeers(marks, scopes, change, previous, next);
  return marks.selection();
}

/** A changed Secret is a new secret alone; where a server gets its first or loses its last, it is a new listener as well. */
function markSecrets(
  marks: Marks,
  previous: MeshSnapshot,
  next: MeshSnapshot,
  change: ChangeSet,
  view: GatewayView,
): void {
  if ((view.credentialed.length === 0 && !view.clientCredentials) || !hasKind(change, 'Secret')) return;
  const changed = (secret: string) => change.configs.has(resourceKey('Secret', view.namespace, secret));
  const [was, is] = [previous, next].map((snapshot) => new Set(gatewaySecretUnits(snapshot, view)));
  for (const unit of new Set([...(was ?? []), ...(is ?? [])])) {
    // A secret that stayed as it is goes when another one goes that is needed beside it.
    const same = was?.has(unit) === is?.has(unit) && !secretsBehind(unit).some(changed);
    if (!same) marks.add('sds', unit);
  }
  const [before, after] = [missingByPort(previous, view), missingByPort(next, view)];
  for (const port of new Set([...before.keys(), ...after.keys()])) {
    if (before.get(port) !== after.get(port)) marks.listenerPort(port);
  }
  const hosts = [hostsWithCredentials(previous, view), hostsWithCredentials(next, view)] as const;
  for (const host of new Set(hosts.flatMap((each) => [...each.keys()]))) {
    if (hosts[0].get(host) !== hosts[1].get(host)) marks.add('cds', host);
  }
}

function hasKind({ configs }: ChangeSet, kind: Kind): boolean {
  for (const key of configs.keys()) if (key.startsWith(`${kind}/`)) return true;
  return false;
}

function gatewayKey(gateway: string): string {
  const slash = gateway.indexOf('/');
  return resourceKey('Gateway', gateway.slice(0, slash), gateway.slice(slash + 1));
}

/** Those bound to the gateways before or after, if a changed resource made them. */
function* changedVirtualServices(
  previous: MeshSnapshot,
  next: MeshSnapshot,
  change: ChangeSet,
  view: GatewayView,
): Generator<ResolvedVirtualService> {
  if (!hasKind(change, 'VirtualService')) return;
  for (const snapshot of [previous, next]) {
    for (const gateway of view.gateways) {
      for (const virtualService of snapshot.virtualServicesOfGateway(gateway)) {
        if (change.configs.has(virtualService.key)) yield virtualService;
      }
    }
  }
}
