/**
 * Documents of kinds that are not read. Most of them are normal next to the configuration of a mesh (a Deployment, a
 * Role). Others look as if their author expected them to have an effect on the mesh. This file distinguishes the two,
 * so that the latter are reported.
 */
import { apiVersionsOf, kindOf } from '../kinds/aliases.ts';
import { CORE_KINDS, type Kind, MESH_KINDS, type ResourceOrigin } from '../kinds/types.ts';

/** A document that was skipped. */
export interface IgnoredDocument {
  /** apiVersion and kind, one short line of printable text. */
  readonly what: string;
  readonly origin: ResourceOrigin;
  /** Why it may have been meant for the mesh; absent for documents that are clearly meant for something else. */
  readonly concern?: string;
}

/** Maximum length of apiVersion and kind in a message; names of the orchestrator are shorter. */
const MAX_SHOWN = 120;

/** Kinds of the core group that do not concern the mesh; any other name there is a typing error. */
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

/** API group in which a standard defines mesh configuration. */
const GATEWAY_API = 'gateway.networking.k8s.io';
/** API groups that have had Ingress. */
const INGRESS_GROUPS: ReadonlySet<string> = new Set(['networking.k8s.io', 'extensions']);

/** Describes a document whose apiVersion and kind are not read. */
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
  if (kindOf(apiVersion, kind) !== undefined) return 'requires CTL_ENABLED_SERVICE_APIS=true';
  if (group === GATEWAY_API) return 'this kind is not supported';
  if (INGRESS_GROUPS.has(group) && kind === 'Ingress') return 'expected apiVersion networking.k8s.io/v1 for Ingress';
  const served = servedKind(group, kind);
  if (served !== undefined) return `expected apiVersion ${apiVersionsOf(served)[0]} for ${kind}`;
  if (['mesh.io', 'istio.io'].some((own) => group === own || group.endsWith(`.${own}`)))
    return 'this kind is not supported';
  return group === '' && !OTHER_CORE_KINDS.has(kind) ? 'unknown kind' : undefined;
}

/** The kind that was probably meant: a mesh kind with any group, or a Kubernetes kind with the right group or none. */
function servedKind(group: string, kind: string): Kind | undefined {
  const mesh = MESH_KINDS.find((each) => each === kind);
  const core = CORE_KINDS.find((each) => each === kind);
  if (mesh !== undefined || core === undefined || group === '') return mesh ?? core;
  return kindOf(`${group}/v1`, kind);
}
