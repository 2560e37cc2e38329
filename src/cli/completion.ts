/** Scripts by which shells complete the commands of a program, their flags and the values of flags. */
import type { FlagSpec } from '../settings/index.ts';
import type { Command, Program } from './program.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

export function completionScript(program: Program, shell: (typeof SHELLS)[number]): string {
  return SCRIPTS[shell](program);
}

const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], (program: Program) => string>> = { bash, zsh, fish };

const flagsOf = ({ options }: Command): [string, FlagSpec][] =>
  Object.entries(options.flags).sort(([a], [b]) => (a < b ? -1 : 1));

const valuesOf = (spec: FlagSpec): readonly string[] => ('values' in spec ? (spec.values ?? []) : []);

/** `--output`, and `-o`. */
const formsOf = (name: string, { short }: FlagSpec): string[] => [
  `--${name}`,
  ...(short === undefined ? [] : [`-${short}`]),
];

/** A string for a shell, which replaces nothing in it. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const functionName = ({ name }: Program): string => `_${name.replaceAll('-', '_')}`;

/** The words after a command: choices of its first argument, then its flags. */
const wordsOf = (command: Command): string[] => [
  ...(command.options.choices ?? []),
  ...flagsOf(command).flatMap(([name, spec]) => formsOf(name, spec)),
];

/** Patterns `command flag` of a `case`, with the values of the flag. */
function valueCases(program: Program, one: (values: readonly string[]) => string): string[] {
  return program.commands.flatMap((command) =>
    flagsOf(command).flatMap(([name, spec]) => {
      const values = valuesOf(spec);
      const patterns = formsOf(name, spec).map((form) => quoted(`${command.options.name} ${form}`));
      return values.length === 0 ? [] : [`    ${patterns.join('|')}) ${one(values)} ;;`];
    }),
  );
}

function bash(program: Program): string {
  const names = program.commands.map(({ options }) => options.name);
  const reply = (words: readonly string[]): string => `COMPREPLY=($(compgen -W ${quoted(words.join(' '))} -- "$cur"))`;
  return lines(
    `# bash completion of ${program.name}: source <(${program.name} completion bash)`,
    `${functionName(program)}() {`,
    `  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" command="" word`,
    `  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do`,
    '    case "$word" in -*) ;; *) command="$word"; break ;; esac',
    '  done',
    '  COMPREPLY=()',
    '  case "$command $prev" in',
    ...valueCases(program, (values) => `${reply(values)}; return`),
    '  esac',
    '  case "$command" in',
    `    '') ${reply([...names, 'help', '--help', '--version'])} ;;`,
    ...program.commands.map((command) => `    ${quoted(command.options.name)}) ${reply(wordsOf(command))} ;;`),
    '  esac',
    '}',
    `complete -o default -F ${functionName(program)} ${program.name}`,
  );
}

function zsh(program: Program): string {
  const described = program.commands.map(({ options }) => quoted(`${options.name}:${options.summary}`));
  return lines(
    `#compdef ${program.name}`,
    `# zsh completion of ${program.name}: source <(${program.name} completion zsh)`,
    `${functionName(program)}() {`,
    '  local command="" word',
    `  for word in "\${(@)words[2,CURRENT-1]}"; do`,
    '    case "$word" in -*) ;; *) command="$word"; break ;; esac',
    '  done',
    `  case "$command \${words[CURRENT-1]}" in`,
    ...valueCases(program, (values) => `compadd -- ${values.map(quoted).join(' ')}; return`),
    '  esac',
    '  case "$command" in',
    `    '') local -a commands=(${described.join(' ')}); _describe command commands ;;`,
    ...program.commands.map(
      (command) =>
        `    ${quoted(command.options.name)}) compadd -- ${wordsOf(command).map(quoted).join(' ')}; _files ;;`,
    ),
    '  esac',
    '}',
    `compdef ${functionName(program)} ${program.name}`,
  );
}

function fish(program: Program): string {
  const all = `complete -c ${program.name}`;
  return lines(
    `# fish completion of ${program.name}: ${program.name} completion fish | source`,
    ...program.commands.flatMap((command) => {
      const { name, summary, choices = [] } = command.options;
      const inside = `${all} -n ${quoted(`__fish_seen_subcommand_from ${name}`)}`;
      const flags = flagsOf(command).map(([flag, spec]) => {
        const short = spec.short === undefined ? '' : ` -s ${spec.short}`;
        const values = valuesOf(spec);
        const value = values.length > 0 ? ` -x -a ${quoted(values.join(' '))}` : spec.type === 'bool' ? '' : ' -r';
        return `${inside} -l ${flag}${short}${value} -d ${quoted(spec.meaning.replaceAll('\n', ' '))}`;
      });
      const first = choices.length === 0 ? [] : [`${inside} -a ${quoted(choices.join(' '))}`];
      return [`${all} -n __fish_use_subcommand -a ${quoted(name)} -d ${quoted(summary)}`, ...first, ...flags];
    }),
  );
}

const lines = (...all: readonly string[]): string => `${all.join('\n')}\n`;
