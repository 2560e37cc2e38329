/** What was built: the version of package.json, and the revision when the build said it. */

import packageJson from '../../package.json' with { type: 'json' };

/** `npm run build` puts `{"revision", "status", "tag"}` here, as a JSON text; sources run as they are have none. */
declare const MESHD_BUILD: string | undefined;

export interface BuildInfo {
  readonly version: string;
  /** Git revision, or `unknown` when it runs from sources. */
  readonly revision: string;
  readonly nodeVersion: string;
  /** `Clean` or `Modified` by the build, `Unbuilt` when it runs from sources. */
  readonly status: string;
  /** Git tag, or the version when there is none. */
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
