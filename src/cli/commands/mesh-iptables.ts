/** `ctl-agent mesh-iptables`: redirects a workload's traffic to its proxy. */

import { closeLogging } from '../../logging/index.ts';
import { flagAndEnvSettings, meshIptablesEnv, meshIptablesFlags } from '../../settings/index.ts';
import { startLogging } from '../logging.ts';
import { type Command, command } from '../program.ts';

export function meshIptablesCommand(): Command {
  return command({
    name: 'mesh-iptables',
    summary: 'Set up port forwarding for the sidecar.',
    flags: meshIptablesFlags,
    async run({ flags, io }) {
      const settings = flagAndEnvSettings(meshIptablesFlags, flags, meshIptablesEnv, io.env);
      startLogging(settings, 'ctl-agent');
      try {
        const { meshIptables } = await import('../../agent/iptables/index.ts');
        await meshIptables(settings, (text) => io.stdout.write(text));
      } finally {
        closeLogging();
      }
      return 0;
    },
  });
}
