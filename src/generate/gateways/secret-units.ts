/** The secrets that a gateway's listeners ask for, as units: one for each SDS name. */
import type { MeshSnapshot } from '../../model/types.ts';
import { gatewayPlan, type ServerPlan } from '../plans/index.ts';
import { clientSecretUnits, encodeSecret } from '../secrets/index.ts';
import type { GatewayView, Unit, UnitOutput } from '../types.ts';

const NOTHING: UnitOutput = { resources: [], findings: [] };

const unitsOfViews = new WeakMap<MeshSnapshot, WeakMap<GatewayView, ReadonlySet<Unit>>>();

/** Names that the servers ask for which are served, and those of clusters. Found once: each unit is held against all of them. */
function secretUnits(snapshot: MeshSnapshot, view: GatewayView): ReadonlySet<Unit> {
  const ofSnapshot = unitsOfViews.get(snapshot) ?? new WeakMap<GatewayView, ReadonlySet<Unit>>();
  unitsOfViews.set(snapshot, ofSnapshot);
  const known = ofSnapshot.get(view);
  if (known !== undefined) return known;
  const units = new Set<Unit>(clientSecretUnits(snapshot, view));
  for (const { credentials } of servers(snapshot, view)) {
    if (credentials === undefined || credentials.missing !== undefined) continue;
    for (const name of credentials.keyPairs) units.add(name);
    if (credentials.authorities !== undefined) units.add(credentials.authorities);
  }
  ofSnapshot.set(view, units);
  return units;
}

export function gatewaySecretUnits(snapshot: MeshSnapshot, view: GatewayView): readonly Unit[] {
  return [...secretUnits(snapshot, view)].sort();
}

export function gatewaySecrets(snapshot: MeshSnapshot, view: GatewayView, unit: Unit): UnitOutput {
  if (!secretUnits(snapshot, view).has(unit)) return NOTHING;
  const bytes = encodeSecret(unit, snapshot, view.namespace);
  return bytes === undefined ? NOTHING : { resources: [{ name: unit, bytes, refs: [] }], findings: [] };
}

/** By port: what of its servers' credentials is missing. Where this differs, so do listeners. */
export function missingByPort(snapshot: MeshSnapshot, view: GatewayView): ReadonlyMap<number, string> {
  const missing = new Map<number, string>();
  for (const { port, label, credentials } of servers(snapshot, view)) {
    if (credentials?.missing === undefined) continue;
    missing.set(port, `${missing.get(port) ?? ''}${label}: ${credentials.missing}\n`);
  }
  return missing;
}

function servers(snapshot: MeshSnapshot, view: GatewayView): readonly ServerPlan[] {
  return [...gatewayPlan(snapshot, view).listeners.values()].flat().flatMap((plan) => plan.servers);
}
