/** Why a proxy on demand holds a resource, or does not, in words; and what it gets of the mesh. */
import type { XdsType } from '../core/xds-types.ts';
import type { ChosenConfiguration, ConnectionStatus, DemandStatus } from '../push/index.ts';
import type { HeldBecause } from '../xds/index.ts';
import type { HeldShown, ProxyConfiguration } from './shapes.ts';
import type { Viewed } from './viewed.ts';

function textOf(reason: HeldBecause): string {
  switch (reason.because) {
    case 'asked':
      return `asked for by host ${reason.host} at ${new Date(reason.at).toISOString()}`;
    case 'connection':
      return `asked for by a connection at ${new Date(reason.at).toISOString()}`;
    case 'learned':
      return `learned from ${reason.from ?? 'another proxy of its configuration'}`;
    case 'named':
      return 'named by its Sidecar';
    case 'kept':
      return 'had before it reconnected';
    case 'whole':
      return 'sent with everything else';
    case 'start':
      return 'needed from the start';
  }
}

/** Without a host a resource is not held. */
export const NOT_ASKED_FOR = 'not asked for yet';

/** @param reasons empty: it does not hold the resource */
export function shownReasons(reasons: readonly HeldBecause[]): HeldShown {
  if (reasons.length === 0) return { held: false, because: [NOT_ASKED_FOR] };
  return {
    held: true,
    because: [...new Set(reasons.map((reason) => `${textOf(reason)}${reason.via ? `, for ${reason.via}` : ''}`))],
  };
}

/** Why the proxy holds a resource; nothing for a proxy that gets everything. */
export function onDemandOf(
  mesh: Viewed,
  connection: ConnectionStatus,
  type: XdsType,
  name: string,
): { readonly onDemand?: HeldShown } {
  const held = mesh.held(connection);
  return held === undefined ? {} : { onDemand: shownReasons(held.why(type, name)) };
}

/**
 * Why a proxy holds the virtual host for a request. One with wildcards is held in parts: there is one for each host
 * that the proxy asked for.
 */
export function hostOnDemand(
  mesh: Viewed,
  connection: ConnectionStatus,
  { name, host }: { readonly name: string; readonly host: string },
): { readonly onDemand?: HeldShown } {
  const held = mesh.held(connection);
  if (held === undefined) return {};
  const isHeld = held.parts('vhds').some((bundle) => bundle.get(name) !== undefined);
  const reasons = held.why('vhds', name);
  const isOfHost = (reason: HeldBecause): boolean =>
    reason.because !== 'asked' || reason.host === host || reason.host.startsWith(`${host}:`);
  return { onDemand: shownReasons(isHeld ? reasons : reasons.filter(isOfHost)) };
}

type Whole = NonNullable<ChosenConfiguration['because'] | DemandStatus['whole']> | 'state-of-the-world';

/** Why a proxy gets everything where the mesh says otherwise. */
const WHOLE: Readonly<Record<Whole, string>> = {
  sidecar: 'its Sidecar has no wildcards',
  gateway: 'it is a gateway',
  grpc: 'it is a gRPC application without a proxy',
  protocol: 'its Envoy is older than 1.40',
  'state-of-the-world': 'it uses the State of the World variant of xDS',
  filter: 'its Envoy lacks the on_demand filter',
  limit: 'it asked for more than 1,024 hosts, or for too large ones',
  before: 'it had everything before the setting changed, and keeps it until it reconnects',
};

export function shownConfiguration(
  { mode: variant, onDemand }: Pick<ConnectionStatus, 'mode' | 'onDemand'>,
  { configuration, because }: ChosenConfiguration,
): ProxyConfiguration {
  if (onDemand !== undefined) {
    const { mode, whole, ...hosts } = onDemand;
    return whole === undefined ? { mode, hosts } : { mode: 'all', because: WHOLE[whole], hosts };
  }
  if (because === undefined) return { mode: 'all', ...(configuration !== 'all' && { because: 'it is being moved' }) };
  const isOld = because === 'protocol' && variant === 'delta';
  return { mode: 'all', because: WHOLE[because === 'protocol' && !isOld ? 'state-of-the-world' : because] };
}
