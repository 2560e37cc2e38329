/**
 * `validate FILE...`: judges documents as the validating webhook does, without a cluster and without a discovery
 * service. The exit code is 1 when one of them would be refused.
 */
import {
  discoveryEnv,
  discoveryFlags,
  discoveryValidateFlags,
  flagAndEnvSettings,
  flagSettings,
  parseFlags,
} from '../../settings/index.ts';
import type { CheckedLine } from '../checked-file.ts';
import { inputText } from '../input-file.ts';
import { formatted, printable } from '../output/index.ts';
import { type Command, command } from '../program.ts';

/** Bytes; a file has the configuration of a mesh, or less. */
const MAX_BYTES = 16 * 1024 * 1024;

export function validateCommand(): Command {
  return command({
    name: 'validate',
    summary: 'Validate documents in files as the validating webhook does.',
    flags: discoveryValidateFlags,
    arguments: ['<file>...'],
    async run({ flags, io }) {
      const { output } = flagSettings(discoveryValidateFlags, flags);
      const { checkFile } = await import('../checked-file.ts');
      const { documentLimits } = await import('../../resources/index.ts');
      const settings = flagAndEnvSettings(discoveryFlags, parseFlags([], discoveryFlags), discoveryEnv, io.env);
      const limits = documentLimits(settings.documentLimitFactor, settings.virtualServiceDelegates);
      const found: CheckedLine[] = [];
      let [checked, others] = [0, 0];
      for (const name of new Set(flags.positionals)) {
        const file = name === '-' ? 'standard input' : name;
        const result = checkFile(file, await inputText(name, MAX_BYTES), limits);
        found.push(...result.lines);
        checked += result.checked;
        others += result.others;
      }
      const refused = found.some(({ level }) => level === 'error');
      if (output !== 'table') io.stdout.write(await formatted({ findings: found, checked, others }, output, () => []));
      else {
        for (const line of found) io.stdout.write(`${shown(line)}\n`);
        io.stdout.write(`${checked} documents checked, ${others} of other kinds\n`);
      }
      return refused ? 1 : 0;
    },
  });
}

function shown({ level, file, line, resource, field, message }: CheckedLine): string {
  const parts = [`${file}:${line}`, level, resource, field, message].filter((part) => part !== '');
  return printable(parts.join(': '), ' ');
}
