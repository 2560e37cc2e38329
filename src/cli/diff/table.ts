/** A preview as text for people. */

import type { DocumentOutcome, PreviewAnswer, ResourceOutcome } from '../../preview/index.ts';
import type { FieldChange } from '../../push/index.ts';
import { printable } from '../output/index.ts';

/** Entries of a list that are shown; `-o json` has more. */
const MAX_SHOWN = 20;
/** Fields of one resource. */
const MAX_FIELDS = 10;
/** Characters of a value. */
const MAX_VALUE = 160;

export function diffText(answer: PreviewAnswer): string {
  const sections = [
    documents(answer),
    proxies(answer),
    resources(answer),
    routes(answer),
    policies(answer),
    list('Problems', answer.problems),
    list('Notes', answer.notes),
  ];
  return `${sections
    .filter((section) => section.length > 0)
    // Values are those of documents: none may control a terminal.
    .map((lines) => lines.map((line) => printable(line)).join('\n'))
    .join('\n\n')}\n`;
}

function documents({ documents: all }: PreviewAnswer): string[] {
  const shown = all.filter(({ effect }) => effect !== 'unchanged');
  const unchanged = all.length - shown.length;
  return [
    'Documents',
    ...limited(shown, (each) => [
      documentLine(each),
      ...(each.warnings ?? []).map((warning) => `      warning: ${warning}`),
    ]),
    ...(unchanged > 0 ? [`  ${unchanged} unchanged`] : []),
  ];
}

function documentLine({ effect, key, at, message }: DocumentOutcome): string {
  const what = key ?? '';
  return `  ${effect.padEnd(9)} ${[what, at, message].filter((part) => part !== undefined && part !== '').join('  ')}`;
}

function proxies({ proxies: { connected, touched, workloads } }: PreviewAnswer): string[] {
  const rows = limited(workloads, (each) => [
    `  ${each.namespace}/${each.workload}  ${numberOf(each.proxies)}  ${each.bytes} bytes`,
  ]);
  return [`Proxies: ${touched} of ${connected} are sent something`, ...rows];
}

function resources({ resources: { added, changed, removed, bytesPushed, list: all } }: PreviewAnswer): string[] {
  const head = `Resources: ${added} added, ${changed} changed, ${removed} removed; ${bytesPushed} bytes to all proxies`;
  return [head, ...limited(all, resourceLines)];
}

const SIGNS: Readonly<Record<ResourceOutcome['effect'], string>> = { added: '+', changed: '~', removed: '-' };

function resourceLines({ type, name, effect, proxies: count, fields, moreFields = 0 }: ResourceOutcome): string[] {
  const head = `  ${SIGNS[effect]} ${type} ${name}  (${numberOf(count)})`;
  if (effect !== 'changed') return [head];
  const shown = fields.slice(0, MAX_FIELDS);
  const hidden = fields.length - shown.length + moreFields;
  return [head, ...shown.flatMap(fieldLines), ...(hidden > 0 ? [`      … and ${hidden} more fields`] : [])];
}

function numberOf(proxies: number): string {
  return `${proxies} ${proxies === 1 ? 'proxy' : 'proxies'}`;
}

function fieldLines({ path, before, after }: FieldChange): string[] {
  const lines = [`      ${path}`];
  if (before !== undefined) lines.push(`        - ${shown(before)}`);
  if (after !== undefined) lines.push(`        + ${shown(after)}`);
  return lines;
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length <= MAX_VALUE ? text : `${text.slice(0, MAX_VALUE)}…`;
}

function limited<T>(items: readonly T[], lines: (item: T) => readonly string[]): string[] {
  const rows = items.slice(0, MAX_SHOWN).flatMap(lines);
  return items.length > MAX_SHOWN ? [...rows, `  … and ${items.length - MAX_SHOWN} more, see -o json`] : rows;
}

function routes({ unreachedRoutes }: PreviewAnswer): string[] {
  if (unreachedRoutes.length === 0) return [];
  const rows = limited(unreachedRoutes, ({ key, field, route, takenBy }) => [
    `  ${key} ${field} (${route}): ${takenBy} takes its requests`,
  ]);
  return ['Routes that are never reached', ...rows];
}

function policies({ policies: all }: PreviewAnswer): string[] {
  if (all.length === 0) return [];
  const rows = limited(all, ({ effect, message, namespaces, proxies: count }) => [
    `  ${effect.padEnd(6)}  ${message}  (${numberOf(count)} in ${limitedNames(namespaces)})`,
  ]);
  return ['Policies', ...rows];
}

function limitedNames(names: readonly string[]): string {
  return names.length <= 5 ? names.join(', ') : `${names.slice(0, 5).join(', ')} and ${names.length - 5} more`;
}

function list(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
}
