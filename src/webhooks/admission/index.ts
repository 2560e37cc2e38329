/** Reads AdmissionReviews, decides about them and responds to them. Runs in a worker. */
export type { AdmissionReply, AdmissionTask } from '../tasks.ts';
export { createReviewer } from './handlers.ts';
