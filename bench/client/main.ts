/** The process of simulated proxies: the bench starts it and sends it commands over IPC. It ends with the bench. */
import { flushCompileCache } from 'node:module';
import { Fleet } from './fleet.ts';
import type { Question, Reply } from './messages.ts';

// The bench kills this process, which ends it without writing what it compiled for the next one.
flushCompileCache();

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
// Ctrl-C in a terminal reaches this process, too. The bench ends it after its own clean-up.
process.on('SIGINT', () => {});
