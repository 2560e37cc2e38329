/** The targets of policies (`targetRefs`): Gateways, and targets that only waypoint proxies serve. */
import type { Kind } from './kinds/types.ts';
import type { ValidationError } from './parsing/issues.ts';
import type { TargetRef } from './schema/common.ts';

export const GATEWAY_GROUP = 'gateway.networking.k8s.io';

export const TARGETS: readonly { readonly kind: string; readonly groups: readonly string[] }[] = [
  { kind: 'Gateway', groups: [GATEWAY_GROUP] },
  { kind: 'GatewayClass', groups: [GATEWAY_GROUP] },
  { kind: 'Service', groups: ['', 'core'] },
  { kind: 'ServiceEntry', groups: ['networking.istio.io', 'networking.mesh.io'] },
];

/**
 * The label that names the waypoint of a service, or of all services in a namespace, in Istio's ambient mode; `none`
 * means that there is none.
 */
const USE_WAYPOINT = 'istio.io/use-waypoint';
const PASSED_ON: ReadonlySet<Kind> = new Set<Kind>(['Namespace', 'Service', 'ServiceEntry']);

/** The warning about the label that sends requests to a waypoint, if a document has it. */
export function waypointLabel(kind: Kind, labels: Readonly<Record<string, string>>): ValidationError[] {
  const { [USE_WAYPOINT]: waypoint = 'none' } = labels;
  if (waypoint === 'none' || !PASSED_ON.has(kind)) return [];
  const message = 'waypoint proxies are not supported: requests do not pass through one, and its policies do not apply';
  return [{ path: ['metadata', 'labels', USE_WAYPOINT], message }];
}

/** The warnings about targets that only waypoints serve: no proxy of this mesh applies the policy for them. */
export function waypointTargets(content: {
  readonly targetRef?: TargetRef | undefined;
  readonly targetRefs?: readonly TargetRef[] | undefined;
}): ValidationError[] {
  const refs: [readonly (string | number)[], TargetRef][] = [
    ...(content.targetRef === undefined ? [] : [[['targetRef'], content.targetRef] as [string[], TargetRef]]),
    ...(content.targetRefs ?? []).map((ref, index): [(string | number)[], TargetRef] => [['targetRefs', index], ref]),
  ];
  return refs.flatMap(([path, { kind }]) =>
    kind === 'Gateway'
      ? []
      : [
          {
            path,
            message: `a reference to a ${kind} is for waypoint proxies, which are not supported: it has no effect`,
          },
        ],
  );
}
