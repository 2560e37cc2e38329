/** Versions of Envoy, as nodes report them (`user_agent_build_version`: `1.40.0`). */

/** Major and minor. */
export type EnvoyRelease = readonly [major: number, minor: number];

/** Whether a version is of this release or a later one; false for '' (the node reports no version). */
export function isAtLeast(version: string, [major, minor]: EnvoyRelease): boolean {
  const [actualMajor = 0, actualMinor = 0] = version.split('.').map(Number);
  return actualMajor > major || (actualMajor === major && actualMinor >= minor);
}

/**
 * The oldest Envoy that generated configuration is tested with. It knows the successors of the fields that newer
 * releases log as deprecated. Older Envoys, and those that report no version, get the fields that every Envoy knows.
 */
export const OLDEST_TESTED: EnvoyRelease = [1, 36];

/**
 * The release from which on CustomTag.value, the interval of retry budgets, and the fields that replace `common_config`
 * of OpenTelemetry access logs are used: the oldest release with which they were tested.
 */
export const FIELDS_OF_1_40: EnvoyRelease = [1, 40];
