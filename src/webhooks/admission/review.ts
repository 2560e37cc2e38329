/**
 * AdmissionReviews of the versions v1 and v1beta1, which differ in nothing that is used here. Source, section "Webhook
 * request and response": https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
 */
import { z } from 'zod';
import { CtlError } from '../../core/errors.ts';
import type { AdmissionAnswer, AdmissionRequest } from '../types.ts';
import { readJson } from './json.ts';

const GROUP = 'admission.k8s.io';
const API_VERSIONS = [`${GROUP}/v1`, `${GROUP}/v1beta1`] as const;

/**
 * More than the API server stores: an object of 1.5 MB, twice in a review of an update, has about 10 bytes for each
 * value.
 */
export const MAX_VALUES = 300_000;

/** Maximum number of values in a review of a Pod; the largest Pods have a few thousand. */
export const MAX_POD_VALUES = 50_000;

/** Maximum length of a review's own fields. Kubernetes names have at most 253 characters, UIDs 36. */
const MAX_TEXT = 512;

/** Go leaves out fields that are empty, and reads null as empty. */
const text = z
  .string()
  .max(MAX_TEXT)
  .nullish()
  .transform((value) => value ?? '');

const reviewSchema = z.object({
  apiVersion: z.enum(API_VERSIONS),
  kind: z.literal('AdmissionReview'),
  request: z.object({
    uid: z.string().min(1).max(MAX_TEXT),
    operation: z.enum(['CREATE', 'UPDATE', 'DELETE', 'CONNECT']),
    kind: z.object({ group: text, version: text, kind: text }),
    namespace: text,
    name: text,
    subResource: text,
    dryRun: z
      .boolean()
      .nullish()
      .transform((value) => value ?? false),
    object: z.unknown().optional(),
    oldObject: z.unknown().optional(),
  }),
});

export interface Review {
  readonly apiVersion: (typeof API_VERSIONS)[number];
  readonly request: AdmissionRequest;
}

/**
 * Reads the body of a request.
 * @throws CtlError invalid_argument with one line for the caller
 */
export function readReview(body: Uint8Array, maxValues: number): Review {
  const parsed = reviewSchema.safeParse(readJson(body, maxValues));
  if (!parsed.success) throw unreadable(parsed.error);
  const { apiVersion, request } = parsed.data;
  return {
    apiVersion,
    request: { ...request, object: request.object ?? undefined, oldObject: request.oldObject ?? undefined },
  };
}

function unreadable({ issues }: z.ZodError): CtlError {
  const problems = issues.map(({ path, message }) => `${path.length === 0 ? 'the body' : path.join('.')}: ${message}`);
  return new CtlError('invalid_argument', `expected an AdmissionReview: ${problems.join('; ')}`);
}

/** Maximum length of a message for a user, which the API server copies into events and logs. */
const MAX_MESSAGE_CHARS = 16_384;

/** The API server passes on the warnings of one request up to 4,096 characters together. */
const MAX_WARNINGS = 20;
const MAX_WARNING_CHARS = 1024;

function shortened(message: string, max: number): string {
  return message.length <= max ? message : `${message.slice(0, max)}… (${message.length} characters)`;
}

/** The body of the response, in the version of the request. */
export function writeReview({ apiVersion, request }: Review, answer: AdmissionAnswer): string {
  const { allowed, refusal, patch = [], warnings = [] } = answer;
  const shown = warnings.slice(0, MAX_WARNINGS).map((warning) => shortened(warning, MAX_WARNING_CHARS));
  if (warnings.length > MAX_WARNINGS) shown.push(`… and ${warnings.length - MAX_WARNINGS} more warnings`);
  const response = {
    uid: request.uid,
    allowed,
    ...(refusal !== undefined && {
      status: { ...refusal, message: shortened(refusal.message, MAX_MESSAGE_CHARS) },
    }),
    ...(patch.length > 0 && {
      patchType: 'JSONPatch',
      patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
    }),
    ...(shown.length > 0 && { warnings: shown }),
  };
  return JSON.stringify({ apiVersion, kind: 'AdmissionReview', response });
}
