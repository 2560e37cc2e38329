/**
 * `ctl-discovery issue-token`: prints a token that authenticates a workload, for a mesh without another token issuer (a
 * laptop, virtual machines). The discovery service accepts it when LOCAL_TOKEN_ISSUER_DIR names the same directory, or
 * one with its jwks.json.
 */
import { discoveryIssueTokenFlags, flagSettings, usageError } from '../../settings/index.ts';
import { type Command, command } from '../program.ts';

export function issueTokenCommand(): Command {
  return command({
    name: 'issue-token',
    summary: 'Print a token of the local issuer for a workload; creates the key pair of the issuer on first use.',
    flags: discoveryIssueTokenFlags,
    async run({ flags, io }) {
      const settings = flagSettings(discoveryIssueTokenFlags, flags);
      const { issuerDir: directory, namespace, serviceAccount, audience, ttlMs } = settings;
      for (const [flag, value] of Object.entries({
        'issuer-dir': directory,
        namespace,
        'service-account': serviceAccount,
      })) {
        if (value === '') throw usageError(`issue-token needs --${flag}`);
      }
      const { issueToken } = await import('../../security/index.ts');
      const identity = { namespace, serviceAccount };
      const token = await issueToken({ directory, identity, audience, lifetimeSeconds: ttlMs / 1000, now: Date.now() });
      io.stdout.write(`${token}\n`);
      return 0;
    },
  });
}
