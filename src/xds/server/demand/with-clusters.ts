/** Readable names of endpoints: in state-of-the-world streams, a cluster refers to its endpoints by a hash. */
import type { Bundle } from '../../../push/index.ts';

/** Each name, followed in parentheses by the cluster that refers to it if that has another name. */
export function withClusters(endpoints: readonly string[], clusters: readonly Bundle[]): readonly string[] {
  const hashes = new Set(endpoints.filter((name) => clusters.every((bundle) => bundle.get(name) === undefined)));
  if (hashes.size === 0) return endpoints;
  const referring = new Map<string, string>();
  for (const bundle of clusters)
    for (const { name, refs } of bundle.resources())
      for (const ref of refs) if (hashes.has(ref)) referring.set(ref, name);
  return endpoints.map((name) => {
    const cluster = referring.get(name);
    return cluster === undefined ? name : `${name} (${cluster})`;
  });
}
