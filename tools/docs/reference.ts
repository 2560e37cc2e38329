/** Writes the reference documents (`docs/reference`) from the tables of flags, variables, metrics, scopes and pages. */
import { AGENT_METRICS } from '../../src/agent/index.ts';
import { MESSAGES, type Message, NOT_REPORTED } from '../../src/analysis/index.ts';
import { agentProgram } from '../../src/cli/agent.ts';
import { discoveryProgram } from '../../src/cli/discovery.ts';
import { jwtCommand } from '../../src/cli/jwt.ts';
import type { Program } from '../../src/cli/program.ts';
import { DEBUG_PAGES } from '../../src/debug/index.ts';
import { LOG_LEVELS, LOG_SCOPES } from '../../src/logging/index.ts';
import { METRICS, type MetricSpec } from '../../src/observe/index.ts';
import {
  AGENT_UNSERVED,
  agentEnv,
  DISCOVERY_UNSERVED,
  describeUnserved,
  discoveryEnv,
  type EnvTable,
  type FlagTable,
  meshIptablesEnv,
} from '../../src/settings/index.ts';
import { ANNOTATIONS_WITHOUT_EFFECT } from '../../src/webhooks/injection/index.ts';
import { fieldSections } from '../coverage/fields-page.ts';
import { ALERTS } from '../monitoring/alerts.ts';
import { documentedAnnotations } from './annotations.ts';

/** A Markdown table whose columns are aligned, as the formatter wants it. */
function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [header, ...rows].map((row) => row.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')));
  const widths = header.map((_, column) => Math.max(3, ...cells.map((row) => [...(row[column] ?? '')].length)));
  const line = (row: readonly string[]): string =>
    `| ${widths.map((width, column) => padded(row[column] ?? '', width)).join(' | ')} |`;
  const [first = [], ...rest] = cells;
  return [line(first), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rest.map(line)].join('\n');
}

const padded = (text: string, width: number): string => text + ' '.repeat(width - [...text].length);

const code = (text: string): string => (text === '' ? '' : `\`${text}\``);

const NOTE = 'Generated from the tables of the program. `npm test` checks that it is current.';

const page = (title: string, ...parts: readonly string[]): string => `${[`# ${title}`, NOTE, ...parts].join('\n\n')}\n`;

type Default = FlagTable[string]['default'];

const shownDefault = (value: Default): string => {
  if (value === '' || value === false) return '';
  return code(typeof value === 'object' ? value.join(',') : String(value));
};

function flagRows(flags: FlagTable): string[][] {
  const rows = Object.entries(flags).sort(([a], [b]) => (a < b ? -1 : 1));
  return rows.map(([name, spec]) => [
    code(`--${name}`) + (spec.short === undefined ? '' : `, ${code(`-${spec.short}`)}`),
    spec.type,
    shownDefault(spec.default),
    spec.meaning,
  ]);
}

const FLAG_HEADER = ['Flag', 'Type', 'Default', 'Meaning'];

const without = (flags: FlagTable, common: FlagTable): FlagTable =>
  Object.fromEntries(Object.entries(flags).filter(([name]) => !Object.hasOwn(common, name)));

/** Flags of a program: those of every command once, then those of each command. */
function flagSections(program: Program): string[] {
  const shared = Object.fromEntries(
    Object.entries(program.flags).filter(([name]) =>
      program.commands.every(({ options }) => Object.hasOwn(options.flags, name)),
    ),
  );
  const sections = program.commands.map(({ options }) => {
    const title = [program.name, options.name, ...(options.arguments ?? [])].join(' ');
    const own = flagRows(without(options.flags, shared));
    return [`### \`${title}\``, options.summary, ...(own.length === 0 ? [] : [table(FLAG_HEADER, own)])];
  });
  return [
    `## \`${program.name}\``,
    'Flags of every command:',
    table(FLAG_HEADER, flagRows(shared)),
    ...sections.flat(),
  ];
}

function flagsPage(): string {
  const { options } = jwtCommand();
  return page(
    'Flags',
    ...flagSections(discoveryProgram()),
    ...flagSections(agentProgram()),
    `## \`${[options.name, ...(options.arguments ?? [])].join(' ')}\``,
    options.summary,
    table(FLAG_HEADER, flagRows(options.flags)),
  );
}

function variableTable(variables: EnvTable): string {
  const rows = Object.entries(variables).sort(([a], [b]) => (a < b ? -1 : 1));
  return table(
    ['Variable', 'Type', 'Default', 'Meaning'],
    rows.map(([name, spec]) => [code(name), spec.type, shownDefault(spec.default), spec.meaning]),
  );
}

const unserved = (variables: typeof DISCOVERY_UNSERVED): string =>
  Object.keys(variables)
    .sort()
    .map((name) => `- ${describeUnserved([name]).replace(name, code(name))}`)
    .join('\n');

function variablesPage(): string {
  return page(
    'Environment variables',
    'An empty value counts as not set. `ctl-discovery env` and `ctl-agent env` print these tables as JSON.',
    '## `ctl-discovery`',
    variableTable(discoveryEnv),
    '### Without effect in this version',
    'Their values are checked. A value other than the default is reported when the program starts.',
    unserved(DISCOVERY_UNSERVED),
    '## `ctl-agent`',
    variableTable({ ...agentEnv, ...meshIptablesEnv }),
    '### Without effect in this version',
    'Their values are checked. A value other than the default is reported when the program starts.',
    unserved(AGENT_UNSERVED),
  );
}

const metricTable = (metrics: Readonly<Record<string, Omit<MetricSpec, 'type'> & { readonly type: string }>>): string =>
  table(
    ['Metric', 'Type', 'Labels', 'Meaning'],
    Object.entries(metrics)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { type, labels = [], meaning }]) => [code(name), type, labels.map(code).join(', '), meaning]),
  );

function metricsPage(): string {
  return page(
    'Metrics',
    'Count and Sum are Prometheus counters, LastValue is a gauge, Distribution a histogram.',
    '## `ctl-discovery`: port 15014, `/metrics`',
    metricTable(METRICS),
    '## `ctl-agent`: port 15020, `/stats/prometheus`',
    'Together with the metrics of Envoy and of the application. Metrics of ctl-discovery that agents of Istio ' +
      'export, too, stay at 0 here.',
    metricTable(AGENT_METRICS),
  );
}

function alertsPage(): string {
  return page(
    'Alerts',
    'Rules of the chart for Prometheus: [metrics.md](../metrics.md#boards-and-alerts).',
    ...ALERTS.flatMap(({ alert, severity, for: duration, expr, summary, description }) => [
      `## ${alert}`,
      wrapped(`${severity}, after ${duration}. ${summary.replace(/\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}/g, '<$1>')}`),
      wrapped(description),
      `\`\`\`promql\n${expr}\n\`\`\``,
    ]),
  );
}

function scopesPage(): string {
  const sections = Object.entries(LOG_SCOPES).flatMap(([program, scopes]) => [
    `## ${code(program)}`,
    [...scopes]
      .sort()
      .map((scope) => `- ${code(scope)}`)
      .join('\n'),
  ]);
  return page(
    'Log scopes',
    `Levels: ${LOG_LEVELS.map(code).join(', ')}. A level shows itself and everything more severe. ` +
      '`all` means every scope.',
    ...sections,
  );
}

function debugPagesPage(): string {
  return page(
    'Debug pages',
    'JSON pages of `ctl-discovery` on ports 8080, 15014 and 9876. ' +
      '[security-model.md](../security-model.md#debug-pages) says who sees what.',
    table(
      ['Page', 'Content'],
      DEBUG_PAGES.map(({ name, title }) => [code(`/debug/${name}`), title]),
    ),
  );
}

function annotationsPage(): string {
  return page(
    'Annotations and labels of Pods',
    [
      'Sidecar injection reads them. Names of `istio.io` mean the same as those of `mesh.io`.',
      'A wrong value refuses the Pod, and an unknown name of these domains causes a warning.',
      'Defaults such as `global.proxy.image` are fields of the values of injection.',
      'Golden files have a Pod, and beside it the injected Pod. Tests send each through a Kubernetes API server.',
    ].join('\n'),
    table(
      ['Name', 'On', 'Default', 'Meaning', 'Shown by'],
      documentedAnnotations().map(({ name, on, default: fallback, meaning, shownBy }) => [
        code(name),
        on,
        fallback,
        meaning,
        shownBy.map((file) => `[${file.name}](../../${file.path})`).join(', '),
      ]),
    ),
    '## Without effect in this version',
    'Each causes a warning.',
    table(
      ['Name', 'Reason'],
      [...ANNOTATIONS_WITHOUT_EFFECT].map(([name, reason]) => [code(name), reason]),
    ),
  );
}

const ABOUT_FIELDS = [
  '`effect`: the field changes what proxies and agents get. `reported`: the field has no effect in this version, and',
  'this is reported to its author: in the log, at `/debug/configz` and by the validating webhook. `Shown by` names a',
  'golden test of the repository whose result differs without the field, or says why none does. An object that is at',
  'several places of a kind, such as a traffic policy, is listed at the first one.',
].join('\n');

function fieldsPage(): string {
  return page('Fields', ABOUT_FIELDS, ...fieldSections(table));
}

/** As text, so that examples of mistakes are not checked as configuration. */
const fenced = (yaml: string): string => `\`\`\`text\n${yaml.trim()}\n\`\`\``;

/** Characters of a line. */
const MAX_LINE = 120;

function wrapped(text: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + word.length >= MAX_LINE) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
}

function messageSections([id, message]: readonly [string, Message]): string[] {
  const { level, name, meaning, example, mended, manifests } = message;
  const where = manifests === true ? ' Found in files only.' : '';
  return [`## ${id} ${name}`, wrapped(`${level}. ${meaning}${where}`), fenced(example), 'Instead:', fenced(mended)];
}

function messagesPage(): string {
  const messages = Object.entries(MESSAGES).sort(([a], [b]) => (a < b ? -1 : 1));
  return page(
    'Messages of analysis',
    [
      '`ctl-discovery analyze` and `/debug/analysisz` report them: [analysis.md](../analysis.md).',
      "Numbers and names are those of Istio's analyzers. Tests run analysis on each example.",
    ].join('\n'),
    table(
      ['Code', 'Level', 'Name'],
      messages.map(([id, { level, name }]) => [`[${id}](#${id.toLowerCase()}-${name.toLowerCase()})`, level, name]),
    ),
    ...messages.flatMap(messageSections),
    '## Codes that are not reported',
    table(['Code', 'Reason'], Object.entries(NOT_REPORTED)),
  );
}

function indexPage(): string {
  const pages = [
    ['fields.md', 'fields of all kinds, of the mesh configuration and of proxy configurations'],
    ['flags.md', 'flags of every command'],
    ['variables.md', 'environment variables of both programs'],
    ['annotations.md', 'annotations and labels of Pods that sidecar injection reads'],
    ['metrics.md', 'metrics of both programs'],
    ['alerts.md', 'alerts for Prometheus, and what to look at'],
    ['log-scopes.md', 'log scopes and levels'],
    ['debug-pages.md', 'pages under `/debug`'],
    ['messages.md', 'messages of analysis: probable mistakes, with examples'],
  ];
  return page('Reference', pages.map(([file, content]) => `- [${file}](${file}): ${content}`).join('\n'));
}

/** The reference documents by file name. */
export function referencePages(): ReadonlyMap<string, string> {
  return new Map([
    ['README.md', indexPage()],
    ['fields.md', fieldsPage()],
    ['flags.md', flagsPage()],
    ['variables.md', variablesPage()],
    ['annotations.md', annotationsPage()],
    ['metrics.md', metricsPage()],
    ['alerts.md', alertsPage()],
    ['log-scopes.md', scopesPage()],
    ['debug-pages.md', debugPagesPage()],
    ['messages.md', messagesPage()],
  ]);
}
