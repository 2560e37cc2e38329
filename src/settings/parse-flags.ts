/**
 * The parser of command lines. citty defines the commands, but its own parser accepts unknown flags, drops invalid
 * values and has neither lists nor `-x=value`. Users of Istio expect the conventions of pflag, which this parser has:
 * `--name value`, `--name=value`, `--bool`, `--bool=false`, `-n value`, `-nvalue`, `-n=value`, combined letters of
 * bools, `--` ends the flags, a repeated flag takes its last value and a repeated list grows. An unknown flag is an
 * error.
 */

import type { CtlError } from '../core/errors.ts';
import { didYouMean } from '../core/nearest.ts';
import { usageError } from './errors.ts';
import type { FlagSpec, FlagTable, FlagValue } from './flag-table.ts';
import { parseFlagValue } from './values.ts';

export interface ParsedFlags {
  /** Values of the flags that are given, by flag name. */
  readonly given: ReadonlyMap<string, FlagValue>;
  readonly positionals: readonly string[];
  /** `--help` or `-h` was found. The arguments after it were not parsed. */
  readonly help: boolean;
}

/** Parses all arguments of a command by its table. Throws a `CtlError` that names the first invalid one. */
export function parseFlags(args: readonly string[], table: FlagTable): ParsedFlags {
  const given = new Map<string, FlagValue>();
  const positionals: string[] = [];
  const done = (help: boolean): ParsedFlags => ({ given, positionals, help });

  for (let i = 0; i < args.length; i += 1) {
    const arg = args[i] ?? '';
    if (arg === '--') {
      positionals.push(...args.slice(i + 1));
      break;
    }
    if (!isFlag(arg)) {
      positionals.push(arg);
      continue;
    }
    for (const { name, shown, spec, text } of splitArgument(arg, table)) {
      if (spec === undefined) {
        if (shown === '--help' || shown === '-h') return done(true);
        throw unknownFlag(name, shown, table);
      }
      const inArgument = text ?? (spec.type === 'bool' ? 'true' : undefined);
      const value = inArgument ?? args[i + 1];
      if (value === undefined) throw usageError(`flag ${shown} needs a value`);
      if (inArgument === undefined) i += 1;
      given.set(name, parseFlagValue(name, spec, value, given.get(name)));
    }
  }
  return done(false);
}

function unknownFlag(name: string, shown: string, table: FlagTable): CtlError {
  const hint = shown.startsWith('--') ? didYouMean(name, Object.keys(table), (known) => `--${known}`) : '';
  return usageError(`unknown flag ${shown}${hint}`);
}

/**
 * The index of the subcommand's name: the first argument that is neither a flag nor the value of one; -1 if there is
 * none. `table` has the flags of all commands, because flags may come before the name.
 */
export function findSubcommand(args: readonly string[], table: FlagTable): number {
  for (let i = 0; i < args.length; i += 1) {
    const arg = args[i] ?? '';
    if (arg === '--') return -1;
    if (!isFlag(arg)) return i;
    const last = splitArgument(arg, table).at(-1);
    if (last?.spec !== undefined && last.spec.type !== 'bool' && last.text === undefined) i += 1;
  }
  return -1;
}

interface FlagPart {
  readonly name: string;
  /** The flag as the user wrote it, with its dashes. */
  readonly shown: string;
  /** Undefined when the flag is unknown. */
  readonly spec: FlagSpec | undefined;
  /** The value in the same argument, if there is one. */
  readonly text: string | undefined;
}

/** A lone dash is a value by convention (standard input), not a flag. */
function isFlag(arg: string): boolean {
  return arg.startsWith('-') && arg !== '-';
}

function splitArgument(arg: string, table: FlagTable): FlagPart[] {
  if (arg.startsWith('--')) {
    const equals = arg.indexOf('=');
    const name = equals < 0 ? arg.slice(2) : arg.slice(2, equals);
    const spec = Object.hasOwn(table, name) ? table[name] : undefined;
    return [{ name, shown: `--${name}`, spec, text: equals < 0 ? undefined : arg.slice(equals + 1) }];
  }
  const parts: FlagPart[] = [];
  for (let at = 1; at < arg.length; at += 1) {
    const letter = arg.charAt(at);
    const [name, spec] = Object.entries(table).find(([, candidate]) => candidate.short === letter) ?? [
      letter,
      undefined,
    ];
    const rest = arg.slice(at + 1);
    const takesRest = rest.startsWith('=') || (spec !== undefined && spec.type !== 'bool' && rest !== '');
    parts.push({ name, shown: `-${letter}`, spec, text: takesRest ? rest.replace(/^=/, '') : undefined });
    if (takesRest || spec === undefined) break;
  }
  return parts;
}
