/** The other end of `startAsked`: a process that answers commands until its parent is gone. */

/** Runs each command that the parent sends and sends the result; the process ends with code 1 if one fails. */
export function answerCommands<Command, Result>(run: (command: Command) => Promise<Result>): void {
  process.on('message', (command: Command) => {
    run(command).then(
      (result) => process.send?.(result),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
  process.on('disconnect', () => process.exit(0));
}
