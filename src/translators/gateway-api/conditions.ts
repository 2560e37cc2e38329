/** Conditions of one object, each type once. */
import type { Condition } from './status-types.ts';

/** What is wrong: the reason of a condition, and a sentence for people. */
export interface Complaint {
  readonly reason: string;
  readonly message: string;
}

/** @param generation of the object; undefined where it has none */
export function condition(
  type: string,
  status: Condition['status'],
  reason: string,
  message: string,
  generation: number | undefined,
): Condition {
  return { type, status, reason, message, ...(generation === undefined ? {} : { observedGeneration: generation }) };
}

/** True without a complaint; otherwise False with the complaint's reason. */
export function verdict(
  type: string,
  complaint: Complaint | undefined,
  good: Complaint,
  generation: number | undefined,
): Condition {
  const { reason, message } = complaint ?? good;
  return condition(type, complaint === undefined ? 'True' : 'False', reason, message, generation);
}
