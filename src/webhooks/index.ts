/** Webhooks: injection of sidecars and validation of documents for the API server of a cluster. */
<<<<<<< HEAD
export {
  type AdmissionPool,
  createAdmissionPool,
  startWebhookServer,
  type WebhookObserver,
  type WebhookServer,
} from './server/index.ts';
export type { ReviewOutcome, Webhook } from './tasks.ts';
=======
export { type ConfigurationObserver, configurationName, WebhookConfigurations } from './configurations/index.ts';
>>>>>>> 71c52e55 (Webhook configurations: CA bundle and failure policy kept by a leader)
export type {
  AdmissionAnswer,
  AdmissionOutcome,
  AdmissionRequest,
  ConfigText,
  Injected,
  InjectionParameters,
  InjectionSettings,
  Injector,
  JsonPatchOperation,
  PodObject,
} from './types.ts';
