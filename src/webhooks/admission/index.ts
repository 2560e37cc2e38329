/** AdmissionReviews: read, decided and answered. Runs in a worker. */
export type { AdmissionReply, AdmissionTask } from '../tasks.ts';
export { createReviewer } from './handlers.ts';
