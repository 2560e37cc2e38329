/**
 * Options and variables that take effect only when a process starts: the program replaces itself with the same process
 * (same id, same files) that has them. Options that the caller has set are kept.
 */

/** A debugger would show the memory of the process, with its keys, to anyone who can send it a signal. */
export const NO_DEBUGGER_ON_SIGNAL = '--disable-sigusr1';

export interface NodeOptions {
  /** Options of Node, `--name` or `--name=value`. */
  readonly options: readonly string[];
  readonly variables?: Readonly<Record<string, string>>;
}

/**
 * Starts this process again with the missing options. Returns when none is missing, or the platform cannot replace a
 * process.
 */
export function restartWith({ options, variables = {} }: NodeOptions): void {
  const present = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(' ')];
  const nameOf = (option: string): string => option.split('=')[0] ?? option;
  const missing = options.filter((option) => !present.some((each) => nameOf(each) === nameOf(option)));
  const unset = Object.entries(variables).filter(([name]) => process.env[name] === undefined);
  if (missing.length === 0 && unset.length === 0) return;
  const args = [...missing, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, [process.execPath, ...args], { ...process.env, ...Object.fromEntries(unset) });
}
