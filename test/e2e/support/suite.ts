/** Shared by the tests of one file: a mesh that is started once and ends with the file. */
import { after, afterEach } from 'node:test';
import { createScope, type Owner } from '../../harness/index.ts';

/**
 * An owner that ends after the last test of the file; logs of what it started are printed when one of them has failed.
 */
export function suiteOwner(): Owner {
  const scope = createScope();
  let failure: unknown;
  afterEach((context) => {
    if ('error' in context) failure ??= context.error ?? undefined;
  });
  after(() => scope.close());
  return {
    after: scope.after,
    get error() {
      return failure;
    },
  };
}

/** The value that a `before` hook sets; reading it earlier is an error of the test. */
export function lazy<T>(): { set(value: T): T; get(): T } {
  let held: { readonly value: T } | undefined;
  return {
    set: (value) => {
      held = { value };
      return value;
    },
    get: () => {
      if (held === undefined) throw new Error('used before the suite was started');
      return held.value;
    },
  };
}
