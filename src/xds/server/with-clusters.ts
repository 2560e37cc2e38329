/** Names of endpoints as people can read them: over State of the World clusters ask for theirs by a hash. */
import type { Bundle } from '../../push/types.ts';

/** Each name with the cluster in brackets that asks for it, where that is called otherwise. */
export function withClusters(endpoints: readonly string[], clusters: readonly Bundle[]): readonly string[] {
  if (endpoints.length === 0) return endpoints;
  const asking = new Map<string, string>();
  for (const bundle of clusters)
    for (const { name, refs } of bundle.resources()) for (const ref of refs) asking.set(ref, name);
  return endpoints.map((name) => {
    const cluster = asking.get(name) ?? name;
    return cluster === name ? name : `${name} (${cluster})`;
  });
}
