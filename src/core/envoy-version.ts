/** Versions of Envoy, as nodes say them (`user_agent_build_version`: `1.40.0`). */

/** Major and minor. */
export type EnvoyRelease = readonly [major: number, minor: number];

/** Whether a version is of this release or a later one; false for '', a node that says none. */
export function isAtLeast(version: string, [major, minor]: EnvoyRelease): boolean {
  const [ofMajor = 0, ofMinor = 0] = version.split('.').map(Number);
  return ofMajor > major || (ofMajor === major && ofMinor >= minor);
}

/**
 * The oldest Envoy that generated configuration is tried with. It knows what replaces the fields that it and later ones
 * log as deprecated; older ones, and those that do not say what they are, get the fields that every Envoy knows.
 */
export const OLDEST_TRIED: EnvoyRelease = [1, 36];
