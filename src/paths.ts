/**
 * Paths of files that are opened at run time. In development the sources run as they are. In the bundles of `dist/`
 * modules are elsewhere, and `tools/build.ts` defines their path as MESHD_DIST.
 */

/**
 * Path from a built module to the `dist/` folder, with a slash at its end. Undefined when the sources run as they are.
 */
declare const MESHD_DIST: string | undefined;

/** Entry points of worker threads in `workers/`. Each is an entry point of the build as well. */
export type WorkerName = 'admit' | 'generate' | 'policy' | 'sign';

/** The module that starts a worker thread. */
export function workerUrl(name: WorkerName): URL {
  if (typeof MESHD_DIST === 'undefined') return new URL(`../workers/${name}.ts`, import.meta.url);
  return new URL(`${MESHD_DIST}workers/${name}.js`, import.meta.url);
}

/** The folder of the page application, which the build makes in `dist/` and the set-up in `pages/`. */
export function pagesUrl(): URL {
  if (typeof MESHD_DIST === 'undefined') return new URL('../pages/gen/', import.meta.url);
  return new URL(`${MESHD_DIST}pages/`, import.meta.url);
}

/** Folder in `dist/` with the code that V8 compiled ahead (`tools/build.ts`). */
export const COMPILED = 'compiled';
