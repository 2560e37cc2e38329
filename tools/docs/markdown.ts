/** Reads the Markdown documents of a repository: fenced blocks, headings, links and prose. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const REPOSITORY = join(import.meta.dirname, '../..');

/** The documents of a repository by path, relative to its folder. */
export function documentsOf(repository: string): ReadonlyMap<string, string> {
  const patterns = ['*.md', 'bench/*.md', 'docs/*.md', 'docs/decisions/*.md', 'docs/reference/*.md'];
  const paths = globSync(patterns, { cwd: repository }).sort();
  return new Map(paths.map((path) => [path, readFileSync(join(repository, path), 'utf8')]));
}

/** The text of a document of this repository. Throws the system's error when there is no such file. */
export function readDocument(path: string): string {
  return readFileSync(join(REPOSITORY, path), 'utf8');
}

/** A fenced block of a document. */
export interface Block {
  readonly language: string;
  /** Its first line, when that is a comment (`# a title`); else empty. */
  readonly title: string;
  /** Without the title. */
  readonly text: string;
  /** Number of the line with the opening fence, from 1. */
  readonly line: number;
}

export function blocksOf(text: string): Block[] {
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map((match) => {
    const [, language = '', content = ''] = match;
    const [, title = ''] = /^# (.*)\n/.exec(content) ?? [];
    const body = title === '' ? content : content.slice(content.indexOf('\n') + 1);
    return { language, title, text: body, line: text.slice(0, match.index).split('\n').length };
  });
}

/** The lines of a document outside of fenced blocks, with their numbers from 1. */
export function proseOf(text: string): { readonly line: number; readonly text: string }[] {
  let fenced = false;
  const lines: { line: number; text: string }[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.startsWith('```')) fenced = !fenced;
    else if (!fenced) lines.push({ line: index + 1, text: line });
  }
  return lines;
}

/** The paragraphs and list items of a document, each with its first line. Tables, headings and examples are none. */
export function paragraphsOf(text: string): { readonly line: number; readonly text: string }[] {
  const paragraphs: { line: number; text: string }[] = [];
  let last = 0;
  for (const { line, text: content } of proseOf(text)) {
    if (/^\s*$|^[|#]/.test(content)) continue;
    const current = paragraphs.at(-1);
    const marker = /^\s*(?:-|\d+\.) /.exec(content)?.[0] ?? '';
    if (current === undefined || line > last + 1 || marker !== '') {
      paragraphs.push({ line, text: content.slice(marker.length) });
    } else current.text += ` ${content}`;
    last = line;
  }
  return paragraphs;
}

/** A row of a table. */
export interface Row {
  readonly line: number;
  /** Number of its cells. */
  readonly cells: number;
}

/** The delimiter row of a table, below its header. */
const DELIMITER = /^\|(?: *:?-{3,}:? *\|)+$/;

/** The tables of a document: the header, the delimiter row, and the rows below these (GitHub Flavored Markdown 4.10). */
export function tablesOf(text: string): readonly (readonly Row[])[] {
  const lines = proseOf(text);
  return lines.flatMap(({ text: content }, index) => {
    if (!DELIMITER.test(content) || index === 0) return [];
    const end = lines.findIndex((line, at) => at > index && !line.text.startsWith('|'));
    return [
      lines.slice(index - 1, end < 0 ? undefined : end).map((line) => ({ line: line.line, cells: cellsIn(line.text) })),
    ];
  });
}

const cellsIn = (row: string): number =>
  row
    .trim()
    .replace(/^\||(?<!\\)\|$/g, '')
    .split(/(?<!\\)\|/).length;

/** The anchors of a document's headings, as hosting sites make them. */
export function anchorsOf(text: string): Set<string> {
  const headings = proseOf(text).filter((line) => /^#+ /.test(line.text));
  return new Set(
    headings.map(({ text: heading }) =>
      heading
        .replace(/^#+ /, '')
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\- _]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}
