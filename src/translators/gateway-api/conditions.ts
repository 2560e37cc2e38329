/** Conditions of an object, at most one of each type. */
import type { Condition } from './status-types.ts';

/** A problem: the reason and the message of a condition. */
export interface Complaint {
  readonly reason: string;
  readonly message: string;
}

/**
 * @param generation of the object; undefined if it has none
 */
export function condition(
  type: string,
  status: Condition['status'],
  reason: string,
  message: string,
  generation: number | undefined,
): Condition {
  return { type, status, reason, message, ...(generation === undefined ? {} : { observedGeneration: generation }) };
}

/** A condition that is True without a complaint, and otherwise False with the complaint's reason. */
export function verdict(
  type: string,
  complaint: Complaint | undefined,
  good: Complaint,
  generation: number | undefined,
): Condition {
  const { reason, message } = complaint ?? good;
  return condition(type, complaint === undefined ? 'True' : 'False', reason, message, generation);
}
