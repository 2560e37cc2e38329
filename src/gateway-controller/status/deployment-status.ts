/** The part that the deployment of a Gateway adds to the status that is computed from documents. */
import { type DesiredStatus, recordsOf, type StatusFields } from '../types.ts';

export interface Complaint {
  readonly reason: string;
  readonly message: string;
}

/**
 * The status with Programmed False where the objects that run the Gateway are refused, or none of its Pods is ready.
 * The Gateway's own problems come first.
 * @param problem why the objects are refused
 * @param unready why no Pod is ready
 */
export function withDeployment(
  desired: DesiredStatus,
  problem: string | undefined,
  unready: Complaint | undefined,
): DesiredStatus {
  const status = desired.status as StatusFields;
  const conditions = recordsOf(status.conditions);
  if (!isTrue(conditions, 'Accepted')) return desired;
  if (problem !== undefined) {
    const refused = { reason: 'Invalid', message: `not deployed: ${problem}` };
    return { ...desired, status: { ...status, conditions: unprogrammed(conditions, refused) } };
  }
  if (unready === undefined) return desired;
  const listeners = recordsOf(status.listeners).map((listener) => {
    const ofListener = recordsOf(listener.conditions);
    return isTrue(ofListener, 'Programmed') ? { ...listener, conditions: unprogrammed(ofListener, unready) } : listener;
  });
  const ofGateway = isTrue(conditions, 'Programmed') ? unprogrammed(conditions, unready) : conditions;
  return { ...desired, status: { ...status, conditions: ofGateway, listeners } };
}

export type Conditions = readonly StatusFields[];

export function isTrue(conditions: Conditions, type: string): boolean {
  return conditions.some((condition) => condition.type === type && condition.status === 'True');
}

export function unprogrammed(conditions: Conditions, { reason, message }: Complaint): Conditions {
  const { observedGeneration } = conditions.find(({ type }) => type === 'Accepted') ?? {};
  const others = conditions.filter(({ type }) => type !== 'Programmed');
  const generation = typeof observedGeneration === 'number' ? { observedGeneration } : {};
  return [...others, { type: 'Programmed', status: 'False', reason, message, ...generation }];
}
