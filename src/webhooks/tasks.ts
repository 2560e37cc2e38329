/**
 * Messages between the HTTPS server on the main thread and the worker that reads reviews: plain data, closed unions.
 */
import type { InjectionParameters, InjectionSettings } from './types.ts';

/** The webhook that a review is for: the path of the request. */
export type Webhook =
  | { readonly kind: 'inject'; readonly parameters: InjectionParameters }
  | { readonly kind: 'validate' };

/** Settings of injection by number: a worker compiles those of one number once. */
export interface NumberedSettings {
  readonly number: number;
  /** Absent where the worker should have them from an earlier task. */
  readonly settings?: InjectionSettings;
}

export type AdmissionTask =
  | {
      readonly kind: 'review';
      readonly webhook: Webhook;
      /** The body of the request. */
      readonly body: Uint8Array;
      /** Undefined: injection has no usable settings, and refuses Pods. */
      readonly injection: NumberedSettings | undefined;
      /** By which validation multiplies the limits of documents. */
      readonly limitFactor?: number;
    }
  /** The first task of a thread: it has loaded its code when this is answered. */
  | { readonly kind: 'load' }
  /** Compiles settings, to find out whether they are usable, and keeps them for reviews with their number. */
  | { readonly kind: 'check'; readonly injection: Required<NumberedSettings> };

/** For the metrics and the log. Few values: names are not used as labels. */
export type ReviewOutcome =
  | { readonly kind: 'injected' }
  | { readonly kind: 'skipped' }
  | { readonly kind: 'injection-failed' }
  /** `group` and `kind` of the document; both `other` when the mesh does not know them. */
  | { readonly kind: 'valid' | 'invalid'; readonly group: string; readonly resource: string };

export type AdmissionReply =
  | {
      readonly kind: 'answered';
      /** The AdmissionReview with the response, JSON. */
      readonly body: string;
      readonly outcome: ReviewOutcome;
      /** What was reviewed, as in `Pod shop/web`, and the reason of a refusal or of a Pod that is left as it is. */
      readonly subject: string;
      readonly reason: string;
    }
  /** The body is no review; one line for the caller. */
  | { readonly kind: 'unreadable'; readonly message: string }
  /** The review cannot be answered; one line for the caller. */
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'loaded' }
  /** The worker was restarted, and has no settings of this number. */
  | { readonly kind: 'settings needed' }
  /** The result of a check: undefined when the settings are usable. */
  | { readonly kind: 'checked'; readonly problem: SettingsProblem | undefined };

/** The parts of a CtlError, which is no plain data. */
export interface SettingsProblem {
  readonly message: string;
}
