/**
 * Messages between the HTTPS server on the main thread and the worker that reads reviews: plain data, closed unions.
 */
import type { AnyResource, DocumentSettings } from '../resources/index.ts';
import type { AdmissionAnswer, InjectionParameters, InjectionSettings, ProxyConfigDocuments } from './types.ts';

/** The webhook that a review is for: the path of the request. */
export type Webhook =
  | { readonly kind: 'inject'; readonly parameters: InjectionParameters }
  | { readonly kind: 'validate' };

/** Settings of injection by number: a worker compiles the settings of each number once. */
export interface NumberedSettings {
  readonly number: number;
  readonly settings: InjectionSettings;
}

/** ProxyConfigs for Pods of a namespace, by number: a worker keeps those of the numbers that it used last. */
export interface NumberedProxyConfigs {
  readonly namespace: string;
  readonly number: number;
  /** Absent where the worker should have them from an earlier task. */
  readonly documents?: ProxyConfigDocuments;
}

export type AdmissionTask =
  | {
      readonly kind: 'review';
      readonly webhook: Webhook;
      /** The body of the request. */
      readonly body: Uint8Array;
      /**
       * The number alone where the worker should have the settings from an earlier task. Undefined: injection has no
       * usable settings, and refuses Pods.
       */
      readonly injection: NumberedSettings | number | undefined;
      /** For injection into Pods of a namespace that was found in the body; absent: the mesh has none. */
      readonly proxyConfigs?: NumberedProxyConfigs;
      /** How validation judges documents. */
      readonly documents?: DocumentSettings;
    }
  /** The first task of a thread: when it is answered, the thread has loaded its code. */
  | { readonly kind: 'load' }
  /** Compiles settings, to find out whether they are usable, and keeps them for reviews with their number. */
  | { readonly kind: 'check'; readonly injection: NumberedSettings };

/** The answer to a review, encoded, and what the metrics and the log show of it. */
export interface ReviewAnswer {
  readonly kind: 'answered';
  /** The AdmissionReview with the response, JSON. */
  readonly body: string;
  readonly outcome: AdmissionAnswer['outcome'];
  /** Group and kind of the document, as labels: both `other` when the mesh does not know them. */
  readonly group: string;
  readonly resource: string;
  /** What was reviewed, as in `Pod shop/web`, and the reason of a refusal or of a Pod that is left as it is. */
  readonly subject: string;
  readonly reason: string;
  /** A valid document of a dry run. */
  readonly candidate?: AnyResource;
}

export type AdmissionReply =
  | ReviewAnswer
  /** `invalid_argument`: the body is not a review; `internal`: the review failed. One line for the caller. */
  | { readonly kind: 'failed'; readonly code: 'invalid_argument' | 'internal'; readonly message: string }
  | { readonly kind: 'loaded' }
  /** The worker was restarted, and has no settings of this number. */
  | { readonly kind: 'settings needed' }
  /** The worker no longer has the ProxyConfigs of this number. */
  | { readonly kind: 'documents needed' }
  /** The ProxyConfigs of the task are those of another namespace than the Pod's. */
  | { readonly kind: 'namespace needed'; readonly namespace: string }
  /** The result of a check: one line, or undefined when the settings are usable. */
  | { readonly kind: 'checked'; readonly problem: string | undefined };
