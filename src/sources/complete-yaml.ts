/**
 * The complete YAML parser, loaded on first use: most directories contain only plain documents, which have a parser of
 * their own, and loading the library takes a tenth of the time to start.
 */
import { createRequire } from 'node:module';
import type { Document, LineCounter } from 'yaml';

type Library = typeof import('yaml');

let library: Library | undefined;

function yaml(): Library {
  library ??= createRequire(import.meta.url)('yaml') as Library;
  return library;
}

export interface ParsedYaml {
  readonly document: Document;
  readonly lines: LineCounter;
}

/** Parses one document; `errors` lists what is wrong with it. */
export function parseYaml(text: string): ParsedYaml {
  const { LineCounter, parseDocument } = yaml();
  const lines = new LineCounter();
  // The library's warnings would bypass the log and quote documents, also Secrets.
  const options = { lineCounter: lines, merge: true, prettyErrors: false, logLevel: 'error' } as const;
  return { document: parseDocument(text, options), lines };
}

/** Whether a node of a document is an alias (`*name`). */
export function isAliasNode(node: object): boolean {
  return yaml().isAlias(node);
}
