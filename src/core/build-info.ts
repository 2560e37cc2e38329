/** Build information: the version of package.json, and the revision that the build has set. */

import packageJson from '../../package.json' with { type: 'json' };

/**
 * Set by `npm run build`: the JSON form of `{"revision", "status", "tag"}`. Undefined when the sources run without a
 * build.
 */
declare const MESHD_BUILD: string | undefined;

export interface BuildInfo {
  readonly version: string;
  /** Git revision; `unknown` without a build. */
  readonly revision: string;
  readonly nodeVersion: string;
  /** `Clean` or `Modified` from the build; `Unbuilt` without one. */
  readonly status: string;
  /** Git tag; the version if there is none. */
  readonly tag: string;
}

export function buildInfo(stamp: string | undefined = builtStamp()): BuildInfo {
  const built: unknown = stamp === undefined ? {} : JSON.parse(stamp);
  const text = (key: string, otherwise: string): string => {
    const value: unknown = typeof built === 'object' && built !== null ? Reflect.get(built, key) : undefined;
    return typeof value === 'string' && value !== '' ? value : otherwise;
  };
  return {
    version: packageJson.version,
    revision: text('revision', 'unknown'),
    nodeVersion: process.version,
    status: text('status', 'Unbuilt'),
    tag: text('tag', packageJson.version),
  };
}

function builtStamp(): string | undefined {
  return typeof MESHD_BUILD === 'undefined' ? undefined : MESHD_BUILD;
}
