/** Help texts, derived from the tables of flags that the parser uses. */

import type { FlagSpec, FlagTable, FlagValue } from '../settings/index.ts';

interface HelpPage {
  /** The command as the user types it: `ctl-discovery discovery`. */
  readonly command: string;
  readonly summary: string;
  /** The arguments besides flags: `<method> <path> [<body>]`. */
  readonly arguments: string;
  readonly flags: FlagTable;
  /** Name and summary of each subcommand. */
  readonly subcommands: readonly (readonly [string, string])[];
}

const TYPE_WORDS: Readonly<Record<FlagSpec['type'], string>> = {
  bool: '',
  string: ' string',
  int: ' int',
  uint16: ' uint16',
  duration: ' duration',
  stringSlice: ' strings',
  stringArray: ' stringArray',
};

export function renderHelp(page: HelpPage): string {
  const usage = [page.command, page.subcommands.length > 0 ? '<command>' : page.arguments, '[flags]'];
  const lines = [page.summary, '', 'Usage:', `  ${usage.filter((part) => part !== '').join(' ')}`, ''];
  if (page.subcommands.length > 0) {
    lines.push('Commands:', ...columns(page.subcommands), '');
  }
  const names = Object.entries(page.flags).sort(([a], [b]) => (a < b ? -1 : 1));
  const rows: (readonly [string, string])[] = names.map(([name, spec]) => [
    `${spec.short === undefined ? '    ' : `-${spec.short}, `}--${name}${TYPE_WORDS[spec.type]}`,
    `${spec.meaning}${shownDefault(spec)}`,
  ]);
  rows.push(['-h, --help', 'Show this help.']);
  lines.push('Flags:', ...columns(rows));
  if (page.subcommands.length > 0) {
    lines.push('', `Use "${page.command} <command> --help" for more about a command.`);
  }
  return `${lines.join('\n')}\n`;
}

/** Empty and false defaults are not shown. Texts are quoted and durations are not, as in other programs with pflag. */
function shownDefault(spec: FlagSpec): string {
  const value: FlagValue = spec.default;
  if (value === '' || value === false) return '';
  if (spec.type === 'string') return ` (default ${JSON.stringify(value)})`;
  return ` (default ${typeof value === 'object' ? `[${value.join(',')}]` : value})`;
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd());
}
