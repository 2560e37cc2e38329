/**
 * What a document may say, is checked, and this version does not act on. The document's author is told so, because
 * nothing else would show it. An entry goes when what it speaks of exists.
 */
import type { Fault } from './issues.ts';
import type { ContentOf } from './schemas.ts';
import type { Kind } from './types.ts';

type Finders = { readonly [K in Kind]?: (content: ContentOf<K>) => readonly Fault[] };

const FINDERS: Finders = {
  DestinationRule: ({ workloadSelector }) =>
    workloadSelector === undefined
      ? []
      : [{ path: ['workloadSelector'], message: 'this version does not act on it: the document is not applied' }],
  EnvoyFilter: () => [{ path: [], message: 'this version checks EnvoyFilters and does not apply them' }],
  VirtualService: ({ http = [] }) =>
    http.flatMap(({ delegate }, index) =>
      delegate === undefined
        ? []
        : [
            {
              path: ['http', index, 'delegate'],
              message: 'this version does not act on it: the document is not applied',
            },
          ],
    ),
};

/** Paths start at the content. */
export function notActedOn<K extends Kind>(kind: K, content: ContentOf<K>): readonly Fault[] {
  return FINDERS[kind]?.(content) ?? [];
}
