/** `completion bash|zsh|fish`: prints the script by which a shell completes the commands of this program. */
import { discoveryCommonFlags, usageError } from '../../settings/index.ts';
import { completionScript, SHELLS } from '../completion.ts';
import { type Command, command, type Program } from '../program.ts';

/** @param program the one that the command is part of */
export function completionCommand(program: () => Program): Command {
  return command({
    name: 'completion',
    summary: 'Print the script by which a shell completes commands, flags and their values.',
    flags: discoveryCommonFlags,
    arguments: ['<shell>'],
    choices: SHELLS,
    run({ flags, io }) {
      const [given = ''] = flags.positionals;
      const shell = SHELLS.find((one) => one === given);
      if (shell === undefined) {
        throw usageError(`expected ${SHELLS.join(', ')}, got ${JSON.stringify(given.slice(0, 80))}`);
      }
      io.stdout.write(completionScript(program(), shell));
      return 0;
    },
  });
}
