/** The secrets that a gateway's listeners request, as units: one for each SDS name. */

import { gatewayPlan } from '../listener-plans/index.ts';
import type { MeshReader } from '../reads/index.ts';
import {
  clientSecretUnits,
  encodeSecret,
  isClientSecret,
  type ServerCredentials,
  serverCredentials,
} from '../secrets/index.ts';
import type { Unit, UnitOutput } from '../types.ts';
import type { GatewayView } from '../views.ts';

const NOTHING: UnitOutput = { resources: [], findings: [] };

/** All names that servers and clusters may request; unavailable ones have no resource. */
export function gatewaySecretUnits(snapshot: MeshReader, view: GatewayView): readonly Unit[] {
  const units = new Set<Unit>(clientSecretUnits(snapshot, view));
  for (const credentials of credentialsOfServers(snapshot, view)) {
    for (const name of namesOf(credentials)) units.add(name);
  }
  return [...units].sort();
}

export function gatewaySecrets(snapshot: MeshReader, view: GatewayView, unit: Unit): UnitOutput {
  if (!isAskedFor(snapshot, view, unit)) return NOTHING;
  const bytes = encodeSecret(unit, snapshot, view.namespace);
  return bytes === undefined ? NOTHING : { resources: [{ name: unit, bytes, refs: [] }], findings: [] };
}

function isAskedFor(snapshot: MeshReader, view: GatewayView, unit: Unit): boolean {
  const byServer = credentialsOfServers(snapshot, view).some(
    (credentials) => namesOf(credentials).includes(unit) && credentials.missing() === undefined,
  );
  return byServer || isClientSecret(snapshot, view, unit);
}

/** The names of secrets that the agent does not serve. */
function namesOf({ keyPairs, authorities }: ServerCredentials): readonly Unit[] {
  const all = authorities === undefined ? keyPairs : [...keyPairs, authorities];
  return all.filter(({ fromAgent }) => !fromAgent).map(({ sdsName }) => sdsName);
}

function credentialsOfServers(snapshot: MeshReader, view: GatewayView): ServerCredentials[] {
  if (view.credentialed.length === 0) return [];
  const plans = [...gatewayPlan(snapshot, view).listeners.values()].flat();
  return plans.flatMap(({ servers }) => servers.flatMap((server) => serverCredentials(server, snapshot, view) ?? []));
}
