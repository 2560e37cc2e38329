/** Previews: what a change of documents would do to proxies, without doing it. */
export type { Target } from './candidate.ts';
export { Previews } from './previews.ts';
export { MAX_REQUEST_BYTES } from './request.ts';
export type {
  DocumentOutcome,
  PolicyOutcome,
  PreviewAnswer,
  PreviewCaller,
  ResourceOutcome,
  WorkloadOutcome,
} from './types.ts';
