/**
 * Where the files that are opened at run time stand. Sources run as they are in development, and `dist/` holds bundles
 * whose modules have moved: `src/dev/build.ts` says where by defining MESHD_DIST.
 */

/** Path from a built module to the `dist/` folder, with a slash at its end. Sources run as they are have none. */
declare const MESHD_DIST: string | undefined;

/** Worker entry points in `workers/`; each is an entry of the build too. */
export type WorkerName = 'generate' | 'sign';

/** The module to start a worker thread with. */
export function workerUrl(name: WorkerName): URL {
  if (typeof MESHD_DIST === 'undefined') return new URL(`../workers/${name}.ts`, import.meta.url);
  return new URL(`${MESHD_DIST}workers/${name}.js`, import.meta.url);
}

/** Folder in `dist/` with what V8 made of its modules (`src/dev/build.ts`). */
export const COMPILED = 'compiled';
