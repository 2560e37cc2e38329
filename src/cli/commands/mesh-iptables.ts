/** `ctl-agent mesh-iptables`: redirects a workload's traffic to its proxy. */
import { closeLogging } from '../../logging/index.ts';
import { flagAndEnvSettings, meshIptablesEnv, meshIptablesFlags } from '../../settings/index.ts';
import { FailureWithCode } from '../errors.ts';
import { startLogging } from '../logging.ts';
import { type Command, command } from '../program.ts';

/** By which programs that repair Pods recognize that traffic is not redirected; as in Istio. */
const NOT_REDIRECTED = 126;

export function meshIptablesCommand(): Command {
  return command({
    name: 'mesh-iptables',
    summary: 'Set up port forwarding for the sidecar.',
    flags: meshIptablesFlags,
    async run({ flags, io }) {
      const settings = flagAndEnvSettings(meshIptablesFlags, flags, meshIptablesEnv, io.env);
      startLogging(settings, 'ctl-agent');
      try {
        const { meshIptables, RedirectionFault } = await import('../../agent/iptables/index.ts');
        await meshIptables(settings, (text) => io.stdout.write(text)).catch((error: unknown) => {
          throw error instanceof RedirectionFault ? new FailureWithCode(NOT_REDIRECTED, error) : error;
        });
      } finally {
        closeLogging();
      }
      return 0;
    },
  });
}
