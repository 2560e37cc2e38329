/** Readable names of endpoints: over state of the world, clusters refer to theirs by a hash. */
import type { Bundle } from '../../push/index.ts';

/** Each name, followed in parentheses by the cluster that refers to it if that has another name. */
export function withClusters(endpoints: readonly string[], clusters: readonly Bundle[]): readonly string[] {
  if (endpoints.length === 0) return endpoints;
  const referring = new Map<string, string>();
  for (const bundle of clusters)
    for (const { name, refs } of bundle.resources()) for (const ref of refs) referring.set(ref, name);
  return endpoints.map((name) => {
    const cluster = referring.get(name) ?? name;
    return cluster === name ? name : `${name} (${cluster})`;
  });
}
