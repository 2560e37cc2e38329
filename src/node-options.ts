/**
 * Options and variables that a process can only be given when it starts, so that a service starts once more, as the
 * same process (same id, same files). What the caller has set already is left as it is.
 */

/** A debugger on a production process hands its memory, keys included, to whoever can send it a signal. */
export const NO_DEBUGGER_ON_SIGNAL = '--disable-sigusr1';

export interface NodeOptions {
  /** Options of Node, `--name` or `--name=value`. */
  readonly options: readonly string[];
  readonly variables?: Readonly<Record<string, string>>;
}

/**
 * Starts this process again with what it lacks of these; returns when it lacks nothing, or the platform cannot do it.
 */
export function restartWith({ options, variables = {} }: NodeOptions): void {
  const said = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(' ')];
  const nameOf = (option: string): string => option.split('=')[0] ?? option;
  const missing = options.filter((option) => !said.some((each) => nameOf(each) === nameOf(option)));
  const unset = Object.entries(variables).filter(([name]) => process.env[name] === undefined);
  if (missing.length === 0 && unset.length === 0) return;
  const args = [...missing, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(process.execPath, [process.execPath, ...args], { ...process.env, ...Object.fromEntries(unset) });
}
