/**
 * Documents that cannot be applied because of an internal error: they are refused like documents with a mistake, so
 * that one of them affects no other, and a policy is replaced by its last good version or by the strictest that it can
 * have been.
 */
import { messageOf, toError } from '../core/errors.ts';
import {
  apiVersionsOf,
  isGuardedKind,
  keyOf,
  type ResourceEvent,
  type ResourceProblem,
  refusedPolicy,
} from '../resources/index.ts';
import { kindOfKey, namespaceOfKey } from './source-documents.ts';
import { storedDocument } from './stored-document.ts';

type Refusal = Extract<ResourceEvent, { readonly type: 'invalid' }>;

/**
 * What replaces an event, to be tried in this order: with the selector of the document, then, because reading it may be
 * what fails, without its content. None for events that put nothing in force.
 */
export function* refusalsOf(event: ResourceEvent, error: unknown): Generator<() => Refusal, void> {
  const message = `cannot be applied because of an internal error: ${messageOf(error)}`.replaceAll('\n', ' ');
  const { eventTime } = event;
  if (event.type === 'set') {
    const { resource } = event;
    const key = keyOf(resource);
    const base: ResourceProblem = { id: key, key, origin: resource.origin, field: '', message };
    const invalid = (raw: unknown): Refusal => {
      const substitutes = isGuardedKind(resource.kind) ? refusedPolicy(raw) : {};
      return { type: 'invalid', problem: { ...base, ...substitutes }, eventTime };
    };
    yield () => invalid(storedDocument(resource));
    yield () => invalid(withoutContent(key));
  } else if (event.type === 'invalid' && event.problem.substitutes !== undefined) {
    const { problem } = event;
    const { key } = problem;
    if (key !== undefined) {
      yield () => ({
        type: 'invalid',
        problem: { ...problem, ...refusedPolicy(withoutContent(key)), message },
        eventTime,
      });
    }
  }
}

/** A document of which only the key is known. */
function withoutContent(key: string): Record<string, unknown> {
  const [kind, namespace, name] = [kindOfKey(key), namespaceOfKey(key), key.split('/')[2]];
  return { apiVersion: apiVersionsOf(kind)[0], kind, metadata: { name, namespace } };
}

/** The error of some work; undefined if it has none. */
export function attempt(work: () => void): Error | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return toError(error);
  }
}
