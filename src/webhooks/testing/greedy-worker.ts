/**
 * The worker of reviews, which takes memory without end for one document: limits keep real documents from needing too
 * much.
 */
import { run as review } from '../../../workers/admit.ts';
import type { AdmissionReply, AdmissionTask } from '../admission/index.ts';
import { GREEDY } from './greedy.ts';

export function run(task: AdmissionTask): AdmissionReply {
  if (task.kind === 'review' && Buffer.from(task.body).includes(GREEDY)) {
    const kept: unknown[] = [];
    for (;;) kept.push(Array.from({ length: 10_000 }, () => ({})));
  }
  return review(task);
}
