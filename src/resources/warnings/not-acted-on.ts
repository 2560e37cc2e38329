/**
 * Valid settings that this version does not act on. The document's author gets a warning, because nothing else would
 * show it. Remove an entry when its feature exists.
 */
import { unappliedPatch } from '../envoy-patches.ts';
import type { ValidationError } from '../issues.ts';
import type { ContentOf } from '../schemas.ts';
import type { Kind } from '../types.ts';
import { ordinaryStars } from './ordinary-stars.ts';

type Finders = { readonly [K in Kind]?: (content: ContentOf<K>) => readonly ValidationError[] };

const FINDERS: Finders = {
  AuthorizationPolicy: ordinaryStars,
  DestinationRule: ({ workloadSelector }) =>
    workloadSelector === undefined
      ? []
      : [{ path: ['workloadSelector'], message: 'this version does not act on it: the document is not applied' }],
  EnvoyFilter: ({ configPatches = [] }) =>
    configPatches.flatMap((patch, index) => {
      const unapplied = unappliedPatch(patch);
      return unapplied === undefined ? [] : [{ ...unapplied, path: ['configPatches', index, ...unapplied.path] }];
    }),
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
export function notActedOn<K extends Kind>(kind: K, content: ContentOf<K>): readonly ValidationError[] {
  return FINDERS[kind]?.(content) ?? [];
}
