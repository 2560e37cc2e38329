/**
 * The name table of a view: the hosts that its proxies see, with their addresses. Agents of Istio (1.8 and later)
 * subscribe to it, and with DNS capture they are not ready before they have it. So a view without names has an empty
 * table. It is one resource, or pieces for agents that merge these.
 */
import { encode, istio } from '../../protobuf/index.ts';
import { addressedScope, joinedResource } from '../common/index.ts';
import type { MeshReader, ScopeReader } from '../reads/index.ts';
import type { GeneratedResource, Unit, UnitOutput } from '../types.ts';
import type { GatewayView, OutboundView, Placement } from '../views.ts';
import { concatenated, encodedChunks } from './chunks.ts';
import { namesOf } from './names.ts';
import { tablePieces } from './pieces.ts';
import type { Name } from './service-names.ts';

/** Name of the unit: a proxy has one table. Name of its resource, or begin of the names of its pieces. */
const NAME_TABLE = 'names';

const NOTHING: UnitOutput = { resources: [], findings: [] };

type NamedView = OutboundView | GatewayView;

export function nameTableUnits(snapshot: MeshReader, view: NamedView): readonly Unit[] {
  return namedScope(snapshot, view) === undefined ? [] : [NAME_TABLE];
}

export function nameTable(snapshot: MeshReader, view: NamedView, unit: Unit): UnitOutput {
  const scope = unit === NAME_TABLE ? namedScope(snapshot, view) : undefined;
  if (scope === undefined) return NOTHING;
  const { memos } = snapshot;
  const names = namesOf(snapshot, scope.services, placeOf(view));
  if (view.namePieces === true)
    return { resources: tablePieces(memos, NAME_TABLE, names, encodeEntries), findings: [] };
  const table = memos.weak<readonly Name[], GeneratedResource>('name tables').get(names, () => {
    // A message is the concatenation of its fields.
    return joinedResource(NAME_TABLE, encodedChunks(memos, 'chunks of name tables', names, encodeEntry), []);
  });
  return { resources: [table], findings: [] };
}

function namedScope(snapshot: MeshReader, view: NamedView): ScopeReader | undefined {
  return view.part === 'gateway' ? snapshot.gatewayScope(view.namespace) : addressedScope(snapshot, view);
}

/** Gateways do not capture DNS, so they need no names of headless services in networks with gateways. */
function placeOf(view: NamedView): Pick<Placement, 'network' | 'cluster'> {
  const { network = '', cluster = '' } = (view.part === 'gateway' ? undefined : view.dns) ?? {};
  return { network, cluster };
}

/** A message is the concatenation of its fields. */
function encodeEntries(names: readonly Name[]): Uint8Array {
  return concatenated(names.map(encodeEntry));
}

function encodeEntry({ host, ips, short }: Name): Uint8Array {
  const info =
    short === undefined
      ? { ips, registry: 'External' }
      : { ips, registry: 'Kubernetes', shortname: short.name, namespace: short.namespace };
  return encode(istio.networking.nds.v1.NameTable, { table: { [host]: info } });
}
