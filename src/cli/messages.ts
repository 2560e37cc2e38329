/**
 * Messages of a program to its user, other than logs and output: one line each on stderr, `program: text`. They go
 * through consola, so that another reporter can change their form.
 */

import { type ConsolaInstance, createConsola } from 'consola/core';

/** A text stream, such as `process.stdout`. */
export interface TextOutput {
  write(text: string): unknown;
}

/** A console that writes each message to `output` as one line. */
export function programConsole(program: string, output: TextOutput): ConsolaInstance {
  return createConsola({
    throttle: 0,
    reporters: [{ log: ({ args }) => void output.write(`${program}: ${args.map(String).join(' ')}\n`) }],
  });
}
