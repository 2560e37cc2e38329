/** `ctl-agent mesh-clean-iptables`: removes the redirection of `ctl-agent mesh-iptables`. */

import { closeLogging } from '../../logging/index.ts';
import { flagSettings, meshCleanIptablesFlags } from '../../settings/index.ts';
import { startLogging } from '../logging.ts';
import { type Command, command } from '../program.ts';

export function meshCleanIptablesCommand(): Command {
  return command({
    name: 'mesh-clean-iptables',
    summary: 'Remove the port forwarding of the sidecar.',
    flags: meshCleanIptablesFlags,
    async run({ flags, io }) {
      const settings = flagSettings(meshCleanIptablesFlags, flags);
      startLogging(settings, 'ctl-agent');
      try {
        const { meshCleanIptables } = await import('../../agent/iptables/index.ts');
        await meshCleanIptables(settings, (text) => io.stdout.write(text));
      } finally {
        closeLogging();
      }
      return 0;
    },
  });
}
