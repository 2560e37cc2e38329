/** `version`: prints the version, or the full build information, as text, YAML or JSON. */

import { type BuildInfo, buildInfo } from '../../core/build-info.ts';
import { type FlagTable, flagSettings, versionFlags } from '../../settings/index.ts';
import { type Command, command } from '../program.ts';

export function versionCommand(flags: FlagTable, info: () => BuildInfo = buildInfo): Command {
  return command({
    name: 'version',
    summary: 'Print build version information.',
    flags,
    async run({ flags: parsed, io }) {
      const { output, short } = flagSettings(versionFlags, parsed);
      io.stdout.write(await versionText(info(), output, short));
      return 0;
    },
  });
}

async function versionText(info: BuildInfo, output: string, short: boolean): Promise<string> {
  const full = {
    version: info.version,
    revision: info.revision,
    nodeVersion: info.nodeVersion,
    status: info.status,
    tag: info.tag,
  };
  const shown = short ? { version: info.version } : full;
  if (output === 'json') return `${JSON.stringify(shown, null, 2)}\n`;
  if (output === 'yaml') return (await import('../../core/yaml.ts')).stringify(shown);
  if (short) return `${info.version}\n`;
  return Object.entries(full)
    .map(([key, value]) => `${key}: ${value}\n`)
    .join('');
}
