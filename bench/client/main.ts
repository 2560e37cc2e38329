/** The process of simulated proxies: started by the bench, told what to do over IPC, and gone when the bench is. */
import { Fleet } from './fleet.ts';
import type { Question, Reply } from './messages.ts';

const fleet = new Fleet();

function reply(answer: Reply): void {
  process.send?.(answer);
}

process.on('message', ({ call, command }: Question) => {
  fleet.run(command).then(
    (answer) => reply({ call, answer }),
    (error: unknown) => reply({ call, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  );
});
process.on('disconnect', () => process.exit(0));
// Ctrl-C in a terminal reaches this process too; the bench ends it when it has cleaned up.
process.on('SIGINT', () => {});
