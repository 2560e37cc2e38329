/** What policies can be attached to by `targetRefs`: Gateways, and what only waypoint proxies serve. */
import type { ValidationError } from './parsing/issues.ts';
import type { TargetRef } from './schema/common.ts';

export const GATEWAY_GROUP = 'gateway.networking.k8s.io';

export const TARGETS: readonly { readonly kind: string; readonly groups: readonly string[] }[] = [
  { kind: 'Gateway', groups: [GATEWAY_GROUP] },
  { kind: 'GatewayClass', groups: [GATEWAY_GROUP] },
  { kind: 'Service', groups: ['', 'core'] },
  { kind: 'ServiceEntry', groups: ['networking.istio.io', 'networking.mesh.io'] },
];

/** Targets that only waypoints have: no proxy of this mesh applies the policy for them. */
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
