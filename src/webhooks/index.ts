/** Webhooks: injection of sidecars and validation of documents for the API server of a cluster. */

export { type ConfigurationObserver, configurationName, WebhookConfigurations } from './configurations/index.ts';
export {
  type AdmissionPool,
  type CallerRank,
  createAdmissionPool,
  startWebhookServer,
  type WebhookObserver,
  type WebhookServer,
} from './server/index.ts';
export type { Webhook } from './tasks.ts';
export type {
  AdmissionAnswer,
  AdmissionRequest,
  ConfigText,
  Injected,
  InjectionParameters,
  InjectionSettings,
  Injector,
  JsonPatchOperation,
  PodObject,
  ProxyConfigDocument,
  ProxyConfigDocuments,
  ProxyConfigs,
} from './types.ts';
