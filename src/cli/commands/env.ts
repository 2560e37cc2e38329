/** `env`: prints the environment variables of a program. */

import { type EnvTable, envDocument, type FlagTable } from '../../settings/index.ts';
import { type Command, command } from '../program.ts';

export function envCommand(flags: FlagTable, variables: EnvTable): Command {
  return command({
    name: 'env',
    summary: 'Print the environment variables read, with type, default and meaning, as JSON.',
    flags,
    run({ io }) {
      io.stdout.write(envDocument(variables));
      return 0;
    },
  });
}
