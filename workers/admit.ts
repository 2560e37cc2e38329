/** The piscina entry point of webhooks: reads and answers reviews, so that they do not delay the main thread. */
import { nameThread } from '../src/core/process/thread-name.ts';
import { type AdmissionReply, type AdmissionTask, createReviewer } from '../src/webhooks/admission/index.ts';

nameThread('admit');

const reviewer = createReviewer();

export function run(task: AdmissionTask): AdmissionReply {
  return reviewer.run(task);
}
