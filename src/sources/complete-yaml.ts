/**
 * The complete YAML parser, loaded when something needs it: most directories hold only plain documents, which have a
 * reader of their own, and loading the parser is a tenth of the time to start.
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

/** Parses one document; what is wrong with it stands in its `errors`. */
export function parseYaml(text: string): ParsedYaml {
  const { LineCounter, parseDocument } = yaml();
  const lines = new LineCounter();
  // Warnings of the library would go past the log, and quote what stands in documents: also in those of Secrets.
  const options = { lineCounter: lines, merge: true, prettyErrors: false, logLevel: 'error' } as const;
  return { document: parseDocument(text, options), lines };
}

/** Whether a node of a document stands for another one (`*name`). */
export function isAliasNode(node: object): boolean {
  return yaml().isAlias(node);
}
