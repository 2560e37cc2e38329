/** Keeps the webhook configurations of this revision up to date while this replica leads. */
import { untilAborted } from '../../core/process/until-aborted.ts';
import { getScope } from '../../logging/index.ts';
import type { Metrics } from '../../observe/index.ts';
import { type DiscoverySettings, discoveryEnv } from '../../settings/index.ts';
import { type ConfigurationObserver, configurationName, WebhookConfigurations } from '../../webhooks/index.ts';
import type { Cluster } from '../clusters/cluster.ts';
import type { LeaderTask } from '../clusters/leadership.ts';
import type { OwnCertificate } from '../identity/own-certificate.ts';
import { revisionSuffix } from '../process/revision.ts';

/**
 * Starts to take part in the election.
 * @throws CtlError when a variable has no name of an object
 */
export function runWebhookConfigurations(
  settings: DiscoverySettings,
  { client, leadership }: Cluster,
  certificate: OwnCertificate,
  metrics: Metrics,
): LeaderTask {
  const { namespace, revision } = settings;
  const nameOf = (variable: 'INJECTION_WEBHOOK_CONFIG_NAME' | 'VALIDATION_WEBHOOK_CONFIG_NAME'): string => {
    const { setting, default: defaultValue } = discoveryEnv[variable];
    return configurationName(variable, { value: settings[setting], defaultValue }, { namespace, revision });
  };
  const names = {
    injection: nameOf('INJECTION_WEBHOOK_CONFIG_NAME'),
    validation: nameOf('VALIDATION_WEBHOOK_CONFIG_NAME'),
  };
  const lead = async (signal: AbortSignal): Promise<void> => {
    const configurations = new WebhookConfigurations({
      client,
      names,
      hosts: hostsOf(settings),
      namespace,
      revision,
      caBundle: () => certificate.caBundle(),
      observer: observerOf(metrics),
      log: getScope('validationController'),
    });
    const endListening = certificate.onChange(() => configurations.bundleChanged());
    configurations.start();
    await untilAborted(signal);
    endListening();
    await configurations.close();
  };
  return leadership.run('webhook-configurations', lead);
}

/**
 * The host names by which webhooks reach this control plane: the Service of this revision, and names from the operator.
 */
function hostsOf({ namespace, revision, meshdCustomHost }: DiscoverySettings): readonly string[] {
  const custom = meshdCustomHost.split(',').map((host) => host.trim());
  const own = ['meshd', 'ctl-discovery'].map((name) => `${name}${revisionSuffix(revision)}.${namespace}.svc`);
  return [...new Set([...own, ...custom].filter((host) => host !== ''))];
}

function observerOf(metrics: Metrics): ConfigurationObserver {
  return {
    loaded: () => metrics.cfg_validation_config_load.inc(),
    loadFailed: () => metrics.cfg_validation_config_load_error.inc(),
    updated: () => metrics.cfg_validation_config_updates.inc(),
    updateFailed: () => metrics.cfg_validation_config_update_error.inc(),
    deleted: () => metrics.cfg_validation_config_delete_error.inc(),
  };
}
