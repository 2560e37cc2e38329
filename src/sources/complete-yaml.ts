/**
 * The complete YAML parser, loaded on first use: most directories contain only plain documents, which have a parser of
 * their own, and loading the library takes a tenth of the time to start.
 */
import { createRequire } from 'node:module';
import type { Document, LineCounter, Node } from 'yaml';

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

/** Parses one document; `errors` lists its problems. */
export function parseYaml(text: string): ParsedYaml {
  const { LineCounter, parseDocument, YAMLParseError } = yaml();
  const lines = new LineCounter();
  // The warnings of the library would bypass the log and quote documents, including Secrets. Its check for duplicate
  // keys compares each key with all others of the mapping.
  const own = { uniqueKeys: false, logLevel: 'error' } as const;
  const document = parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false, ...own });
  const repeated = document.errors.length > 0 ? undefined : repeatedKey(document.contents);
  if (repeated !== undefined)
    document.errors.push(new YAMLParseError([repeated, repeated + 1], 'DUPLICATE_KEY', 'Map keys must be unique'));
  return { document, lines };
}

/** Position of the first duplicate key; undefined if there is none. */
function repeatedKey(contents: Node | null): number | undefined {
  if (contents === null) return undefined;
  const { isScalar, visit } = yaml();
  let first: number | undefined;
  visit(contents, {
    Map(_, { items }) {
      const known = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        const position = key.range?.[0] ?? 0;
        if (known.has(key.value)) first = Math.min(first ?? position, position);
        known.add(key.value);
      }
    },
  });
  return first;
}

/** Whether a node of a document is an alias (`*name`). */
export function isAliasNode(node: object): boolean {
  return yaml().isAlias(node);
}
