/**
 * Runs a tree of citty commands. citty defines commands (meta data and `run`). This file chooses the command and parses
 * its flags with the table of flags that belongs to the command.
 */
import { type CommandDef, defineCommand, runCommand } from 'citty';
import { buildInfo } from '../core/build-info.ts';
import { CtlError, messageOf } from '../core/errors.ts';
import { didYouMean } from '../core/nearest.ts';
import { sourceStack } from '../core/process/source-maps.ts';
import type { ProgramName } from '../logging/index.ts';
import {
  type Environment,
  type FlagTable,
  findSubcommand,
  type ParsedFlags,
  parseFlags,
  usageError,
} from '../settings/index.ts';
import { FailureWithCode } from './errors.ts';
import { renderHelp } from './help.ts';
import type { TextOutput } from './messages.ts';

/** The environment of a command: output streams and variables. */
export interface ProgramIo {
  readonly stdout: TextOutput;
  readonly stderr: TextOutput;
  readonly env: Environment;
}

/** The input of a command's action. */
interface Call {
  readonly flags: ParsedFlags;
  readonly io: ProgramIo;
}

interface CommandOptions {
  readonly name: string;
  readonly summary: string;
  readonly flags: FlagTable;
  /** Arguments besides flags. Those in brackets are optional, and one that ends in `...` is repeated. */
  readonly arguments?: readonly string[];
  /** Values of the first argument, where they are known: shells complete them. */
  readonly choices?: readonly string[];
  /** Does the command's work and returns the exit code. */
  readonly run: (call: Call) => Promise<number> | number;
}

/** A citty command with its table of flags, for the parser and the help. */
export interface Command {
  readonly options: CommandOptions;
  readonly definition: CommandDef;
}

export interface Program {
  readonly name: ProgramName;
  readonly summary: string;
  /** Flags of the program, which every command has as well. */
  readonly flags: FlagTable;
  readonly commands: readonly Command[];
}

/** The exit code is a field of the data, because citty drops the result of `run`. */
interface RunData extends Call {
  exitCode: number;
}

export function command(options: CommandOptions): Command {
  const definition = defineCommand({
    meta: { name: options.name, description: options.summary },
    async run({ data }: { data?: RunData }) {
      if (data !== undefined) data.exitCode = await options.run(data);
    },
  });
  return { options, definition };
}

/** Runs a program with the arguments after its name. Resolves with the exit code and never rejects. */
export function runProgram(program: Program, args: readonly string[], io: ProgramIo): Promise<number> {
  return guarded(program.name, io, () => dispatch(program, args, io));
}

/** Runs a program that is a single command. Resolves with the exit code and never rejects. */
export function runSingleCommand(single: Command, args: readonly string[], io: ProgramIo): Promise<number> {
  const { name, flags } = single.options;
  const options = { ...single.options, flags: { ...flags, version: VERSION_FLAG } };
  return guarded(name, io, async () => {
    const { given, help: asked } = parseFlags(args, options.flags);
    if (asked || given.get('version') !== true) return runChosen({ ...single, options }, name, args, io);
    io.stdout.write(`${buildInfo().version}\n`);
    return 0;
  });
}

async function guarded(program: string, io: ProgramIo, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    const { programConsole } = await import('./messages.ts');
    programConsole(program, io.stderr).error(shownError(error));
    return error instanceof FailureWithCode ? error.exitCode : 1;
  }
}

async function dispatch(program: Program, args: readonly string[], io: ProgramIo): Promise<number> {
  const at = findSubcommand(args, allFlags(program));
  if (at < 0) return withoutCommand(program, args, io);
  const name = args[at] ?? '';
  const rest = args.toSpliced(at, 1);
  const chosen = program.commands.find((candidate) => candidate.options.name === name);
  if (name === 'help') return help(program, rest, io);
  if (chosen === undefined) throw unknownCommand(program, name);
  return runChosen(chosen, `${program.name} ${name}`, rest, io);
}

/** Without a command: prints the version with `--version`, else the help. */
async function withoutCommand(program: Program, args: readonly string[], io: ProgramIo): Promise<number> {
  const { given, help: asked } = parseFlags(args, { ...program.flags, version: VERSION_FLAG });
  const version = program.commands.find(({ options }) => options.name === 'version');
  if (!asked && given.get('version') === true && version !== undefined) {
    return runChosen(version, `${program.name} version`, [], io);
  }
  io.stdout.write(programHelp(program));
  return 0;
}

const VERSION_FLAG = { type: 'bool', default: false, meaning: 'Print the version.' } as const;

function unknownCommand(program: Program, name: string): CtlError {
  const names = program.commands.map(({ options }) => options.name);
  const hint = didYouMean(name, names) || `, see ${program.name} --help`;
  return usageError(`unknown command ${JSON.stringify(name.slice(0, 80))}${hint}`);
}

/** @param typed the command as the user types it, with the program */
async function runChosen(chosen: Command, typed: string, args: readonly string[], io: ProgramIo): Promise<number> {
  const flags = parseFlags(args, chosen.options.flags);
  if (flags.help) {
    io.stdout.write(commandHelp(typed, chosen));
    return 0;
  }
  checkArguments(chosen, flags.positionals);
  const data: RunData = { flags, io, exitCode: 0 };
  await runCommand(chosen.definition, { rawArgs: [], data });
  return data.exitCode;
}

function help(program: Program, args: readonly string[], io: ProgramIo): number {
  const name = args[0];
  const chosen = program.commands.find((candidate) => candidate.options.name === name);
  if (name !== undefined && chosen === undefined) throw unknownCommand(program, name);
  io.stdout.write(chosen === undefined ? programHelp(program) : commandHelp(`${program.name} ${name}`, chosen));
  return 0;
}

function checkArguments(chosen: Command, positionals: readonly string[]): void {
  const { name, arguments: wanted = [] } = chosen.options;
  const extra = positionals[wanted.length];
  if (extra !== undefined && wanted.at(-1)?.endsWith('...') !== true)
    throw usageError(`unexpected argument ${JSON.stringify(extra)} of ${name}`);
  const missing = wanted[positionals.length];
  if (missing !== undefined && !missing.startsWith('[')) {
    throw usageError(`${name} needs ${wanted.join(' ')}, ${missing} is missing`);
  }
}

function allFlags(program: Program): FlagTable {
  return Object.assign({}, ...program.commands.map((each) => each.options.flags), program.flags);
}

function programHelp(program: Program): string {
  return renderHelp({
    command: program.name,
    summary: program.summary,
    arguments: '',
    flags: { ...program.flags, version: VERSION_FLAG },
    subcommands: program.commands.map(({ options }) => [options.name, options.summary]),
  });
}

function commandHelp(typed: string, { options }: Command): string {
  return renderHelp({
    command: typed,
    summary: options.summary,
    arguments: (options.arguments ?? []).join(' '),
    flags: options.flags,
    subcommands: [],
  });
}

/** A mistake of the user or a system error is one line. An internal error is shown with its stack trace. */
function shownError(error: unknown): string {
  if (error instanceof CtlError && error.code !== 'internal') return error.oneLine();
  if (error instanceof Error && 'syscall' in error) return messageOf(error).replace(/\s*[\r\n]+\s*/g, ' ');
  return error instanceof Error ? sourceStack(error.stack ?? error.message) : String(error);
}
