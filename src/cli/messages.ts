/**
 * What the programs say about themselves on the console (not logs, not output): one line each on stderr, `program:
 * text`. consola carries them, so that a caller can turn them into something else by setting another reporter.
 */

import { type ConsolaInstance, createConsola } from 'consola/core';

/** Something that takes text, like `process.stdout`. */
export interface TextOutput {
  write(text: string): unknown;
}

/** A console whose messages go to `output`, each as one line. */
export function programConsole(program: string, output: TextOutput): ConsolaInstance {
  return createConsola({
    throttle: 0,
    reporters: [{ log: ({ args }) => void output.write(`${program}: ${args.map(String).join(' ')}\n`) }],
  });
}
