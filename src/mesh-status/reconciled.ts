/** The condition Reconciled of mesh resources: whether all proxies that are connected have acknowledged a document. */
import { type Condition, recordsOf, type StatusObject } from '../object-status/index.ts';
import { type DocumentVersion, type JoinedState, MAX_MESSAGE } from './acknowledgements/document-state.ts';

const RECONCILED = 'Reconciled';

/** Why a document of the API server is not in force. */
export interface RefusedVersion extends DocumentVersion {
  readonly message: string;
}

export interface ReconciledInputs {
  /** The document in force; undefined if it is not one of the cluster. */
  readonly inForce: DocumentVersion | undefined;
  readonly refused: RefusedVersion | undefined;
  /** Of the version in force; undefined while it is not known which replicas there are. */
  readonly joined: JoinedState | undefined;
  /** Whether proxies have had enough time for it. */
  readonly isOverdue: boolean;
}

/** Whether the status of an object says that all proxies have acknowledged its current generation. */
export function isSettled({ status, generation }: Pick<StatusObject, 'status' | 'generation'>): boolean {
  const condition = recordsOf(status.conditions).find(({ type }) => type === RECONCILED);
  return condition?.status === 'True' && condition.observedGeneration === generation;
}

/**
 * Undefined while it is not known: the condition that the object has stays.
 *
 * A document that all proxies had acknowledged stays reconciled while proxies connect that lack it still. It is no
 * longer reconciled when one of them rejects it.
 */
export function reconciledCondition(
  object: Pick<StatusObject, 'uid' | 'generation' | 'status'>,
  { inForce, refused, joined, isOverdue }: ReconciledInputs,
): Condition | undefined {
  const of = (status: 'True' | 'False', reason: string, message: string): Condition => {
    return { type: RECONCILED, status, reason, message, observedGeneration: object.generation };
  };
  const isCurrent = (version: DocumentVersion) =>
    version.uid === object.uid && version.generation === object.generation;
  if (refused !== undefined && isCurrent(refused)) return of('False', 'Refused', shortened(refused.message));
  if (inForce === undefined || !isCurrent(inForce) || joined === undefined) return undefined;
  const { silent, pending, rejected, message } = joined;
  if (rejected > 0) return of('False', 'Rejected', shortened(message));
  if (silent + pending === 0 || isSettled(object)) {
    return of('True', 'Acknowledged', 'all connected proxies that it concerns have acknowledged it');
  }
  if (!isOverdue) return undefined;
  // Without numbers, which would be written again and again while proxies are restarted.
  const lacking = 'not all connected proxies have acknowledged it';
  return of('False', 'Pending', pending > 0 ? lacking : 'not all replicas of the control plane have reported about it');
}

function shortened(message: string): string {
  return message.slice(0, MAX_MESSAGE).toWellFormed();
}
