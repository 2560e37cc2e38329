/** A translated route: its attachments, its rules and its status. */
import type { ResourceKey } from '../../../resources/index.ts';
import { type Complaint, condition, verdict } from '../conditions.ts';
import { ROUTE_KINDS, type RouteKind } from '../listeners/listeners.ts';
import type { Condition, RouteParentStatus } from '../status-types.ts';
import type { Attachment, ParentResult } from './attachments.ts';
import type { Compiled, RouteResource } from './compiled.ts';

export interface TranslatedRoute {
  readonly key: ResourceKey;
  readonly created: number | undefined;
  /** `namespace/name` */
  readonly route: string;
  readonly attachments: readonly Attachment[];
  /** The same object until its rules, or what they lead to, change. */
  readonly compiled: Compiled;
}

export function isRouteKind(kind: string): kind is RouteKind {
  return ROUTE_KINDS.some((each) => each === kind);
}

export function translateRoute(
  key: ResourceKey,
  { meta }: RouteResource,
  parents: readonly ParentResult[],
  compiled: Compiled,
): TranslatedRoute {
  const attachments = parents.flatMap((parent) => parent.attachments);
  return { key, created: meta.created, route: `${meta.namespace}/${meta.name}`, attachments, compiled };
}

const ACCEPTED: Complaint = { reason: 'Accepted', message: 'the route is attached' };
const RESOLVED: Complaint = { reason: 'ResolvedRefs', message: 'all references are resolved' };

/** The status entries for the Gateways of this controller. */
export function parentStatuses(
  { meta }: RouteResource,
  parents: readonly ParentResult[],
  compiled: Compiled,
  controllerName: string,
): readonly RouteParentStatus[] {
  return parents.map(({ reference, complaint }) => ({
    parentRef: reference,
    controllerName,
    conditions: conditionsOf(complaint, compiled, meta.generation),
  }));
}

function conditionsOf(
  complaint: Complaint | undefined,
  { unsupported, unresolved, ruleCount }: Compiled,
  generation: number | undefined,
): readonly Condition[] {
  const isRefused = ruleCount > 0 && unsupported.size === ruleCount;
  const [first] = unsupported.values();
  const conditions = [
    verdict('Accepted', complaint ?? (isRefused ? first : undefined), ACCEPTED, generation),
    verdict('ResolvedRefs', unresolved, RESOLVED, generation),
  ];
  if (unsupported.size === 0 || isRefused || complaint !== undefined) return conditions;
  const rules = [...unsupported].map(([index, { message }]) => `rule ${index} (${message})`).join(', ');
  const message = `Dropped Rule: requests that match these rules receive HTTP 500: ${rules}`;
  return [...conditions, condition('PartiallyInvalid', 'True', 'UnsupportedValue', message, generation)];
}
