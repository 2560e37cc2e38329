/** A step after the templates: takes the Pod with its sidecar and returns a changed one. */
import type { PodObject } from '../../types.ts';
import type { TemplateData } from '../template-data/types.ts';

/** What the steps read. */
export interface InjectionContext {
  readonly data: TemplateData;
  /** The Pod before injection. */
  readonly original: PodObject;
  /** Whether the Pod was injected before, and other webhooks changed it since. */
  readonly isRepeated: boolean;
  /** Warnings for the user of `kubectl apply`; steps add to them. */
  readonly warnings: string[];
}

/** Does not change its argument; returns the same object if there is nothing to change. */
export type InjectionStep = (pod: PodObject, context: InjectionContext) => PodObject;
