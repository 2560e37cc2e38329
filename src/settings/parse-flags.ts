/**
 * The command-line reader. citty defines the commands, but its reader takes unknown flags, drops values it cannot read
 * and knows no lists or `-x=value`; the specification's programs behave like their kind (pflag), so this one is strict:
 * `--name value`, `--name=value`, `--bool`, `--bool=false`, `-n value`, `-nvalue`, `-n=value`, letters of bools
 * together, `--` ends the flags, the last of several occurrences counts and lists grow. Whatever it does not know is an
 * error naming it.
 */

import { didYouMean } from '../core/nearest.ts';
import { usageError } from './errors.ts';
import type { FlagSpec, FlagTable, FlagValue } from './flag-table.ts';
import { parseFlagValue } from './values.ts';

export interface ParsedFlags {
  /** Values of the flags given, by flag name. */
  readonly given: ReadonlyMap<string, FlagValue>;
  readonly positionals: readonly string[];
  /** `--help` or `-h` was met; what came after it was not read. */
  readonly help: boolean;
}

/** Reads all arguments of a command by its table. Throws a `CtlError` naming the first thing it cannot take. */
export function parseFlags(args: readonly string[], table: FlagTable): ParsedFlags {
  const given = new Map<string, FlagValue>();
  const positionals: string[] = [];
  const done = (help: boolean): ParsedFlags => ({ given, positionals, help });
  const set = (name: string, spec: FlagSpec, text: string) => {
    given.set(name, parseFlagValue(name, spec, text, given.get(name)));
  };

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
    for (const part of splitArgument(arg, table)) {
      if (part.spec === undefined) {
        if (part.shown === '--help' || part.shown === '-h') return done(true);
        const hint = arg.startsWith('--') ? didYouMean(part.name, Object.keys(table), (name) => `--${name}`) : '';
        throw usageError(`unknown flag ${part.shown}${hint}`);
      }
      if (part.text !== undefined) {
        set(part.name, part.spec, part.text);
      } else if (part.spec.type === 'bool') {
        set(part.name, part.spec, 'true');
      } else {
        const next = args[i + 1];
        if (next === undefined) throw usageError(`flag ${part.shown} needs a value`);
        set(part.name, part.spec, next);
        i += 1;
      }
    }
  }
  return done(false);
}

/**
 * Where the first argument stands that is neither a flag nor a flag's value, or -1: the name of the subcommand, which
 * may have flags before it. `table` holds the flags of all commands, to know which of them take a value.
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
  /** The flag as the user wrote it, dashes included. */
  readonly shown: string;
  /** Undefined when the table does not have it. */
  readonly spec: FlagSpec | undefined;
  /** The value that came with it, if one did. */
  readonly text: string | undefined;
}

/** A lone dash is a value by custom (standard input), not a flag. */
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
