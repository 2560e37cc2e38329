/** The environment variables of the webhooks of ctl-discovery. */
import type { EnvTable } from '../env-table.ts';

export const discoveryWebhookEnv = {
  INJECTION_WEBHOOK_CONFIG_NAME: {
    setting: 'injectionWebhookConfigName',
    type: 'string',
    default: 'mesh-sidecar-injector',
    meaning:
      'Name of the mutating webhook configuration to patch when the command-line installer is not used. ' +
      'The default gets -REVISION with a revision other than default.',
  },
  VALIDATION_WEBHOOK_CONFIG_NAME: {
    setting: 'validationWebhookConfigName',
    type: 'string',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the namespace replaces it at start
    default: 'meshd-${namespace}',
    meaning:
      'Name of the validating webhook configuration to patch when the command-line installer is not used. ' +
      // biome-ignore lint/suspicious/noTemplateCurlyInString: placeholders
      'The default gets -REVISION with a revision other than default; ${namespace} and ${revision} are replaced.',
  },
} as const satisfies EnvTable;
