/**
 * Documents of kinds that are not read. Most of them stand beside a mesh's configuration by right (a Deployment, a
 * Role); others look as if somebody expected the mesh to do what they say. Which is which is told here, so that neither
 * passes in silence.
 */
import { apiVersionsOf, kindOf } from './aliases.ts';
import { CORE_KINDS, type Kind, MESH_KINDS, type ResourceOrigin } from './types.ts';

/** A document that was passed over. */
export interface IgnoredDocument {
  /** apiVersion and kind, one short line of printable text. */
  readonly what: string;
  readonly origin: ResourceOrigin;
  /** Why it may have been meant for the mesh; left out for what is plainly somebody else's. */
  readonly concern?: string;
}

/** Longest apiVersion and kind shown; names of the orchestrator are shorter. */
const MAX_SHOWN = 120;

/** Kinds of the core group that are none of the mesh's business; any other name there is a slip of the pen. */
const OTHER_CORE_KINDS: ReadonlySet<string> = new Set([
  'Binding',
  'ComponentStatus',
  'Event',
  'LimitRange',
  'PersistentVolume',
  'PersistentVolumeClaim',
  'PodTemplate',
  'ReplicationController',
  'ResourceQuota',
]);

/** Groups of other meshes' ways to say what a mesh is for. */
const GATEWAY_API = 'gateway.networking.k8s.io';
const INGRESS_GROUPS: ReadonlySet<string> = new Set(['networking.k8s.io', 'extensions']);

/** Describes a document whose apiVersion and kind mean nothing that is read. */
export function ignoredDocument(apiVersion: string, kind: string, origin: ResourceOrigin): IgnoredDocument {
  const what = `${apiVersion} ${kind}`.replace(/[^\x20-\x7e]/g, '?');
  const concern = concernOf(apiVersion, kind);
  return {
    what: what.length > MAX_SHOWN ? `${what.slice(0, MAX_SHOWN)}…` : what,
    origin,
    ...(concern === undefined ? {} : { concern }),
  };
}

function concernOf(apiVersion: string, kind: string): string | undefined {
  const slash = apiVersion.indexOf('/');
  const group = slash < 0 ? '' : apiVersion.slice(0, slash);
  if (group === GATEWAY_API || (INGRESS_GROUPS.has(group) && kind === 'Ingress')) return 'this kind is not served';
  const served = servedKind(group, kind);
  if (served !== undefined) return `expected apiVersion ${apiVersionsOf(served)[0]} for ${kind}`;
  if (['mesh.io', 'istio.io'].some((own) => group === own || group.endsWith(`.${own}`)))
    return 'this kind of a mesh is not served';
  return group === '' && !OTHER_CORE_KINDS.has(kind) ? 'there is no such kind' : undefined;
}

/**
 * The kind that was probably meant: of the mesh's under whatever group, of the orchestrator's under the right group or
 * none.
 */
function servedKind(group: string, kind: string): Kind | undefined {
  const mesh = MESH_KINDS.find((each) => each === kind);
  const core = CORE_KINDS.find((each) => each === kind);
  if (mesh !== undefined || core === undefined || group === '') return mesh ?? core;
  return kindOf(`${group}/v1`, kind);
}
