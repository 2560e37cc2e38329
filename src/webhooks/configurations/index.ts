/** Keeps the webhook configurations of a cluster up to date while this replica leads. */
export { type ControlPlane, configurationName } from './names.ts';
export {
  type ConfigurationObserver,
  WebhookConfigurations,
  type WebhookConfigurationsOptions,
} from './webhook-configurations.ts';
