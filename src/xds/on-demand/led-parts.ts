/**
 * Resources that lead a proxy to clusters that are not generated yet, because they are of another part of it than the
 * clusters: an EnvoyFilter may make an inbound listener name any cluster. The proxy keeps what it has of them until the
 * clusters are there, and gets both in one push.
 */
import type { Bundle, LaterClusters, Parts } from '../../push/index.ts';
import { sameBundles } from '../protocol/index.ts';
import type { SharedDemand } from './shared-demand.ts';

const LEADING = ['lds', 'rds', 'ecds'] as const satisfies readonly (keyof Parts)[];

export interface LedParts {
  readonly content: Parts;
  /** The clusters that are not generated, which are generated now. */
  readonly awaited: readonly string[];
}

/** @param before the content that the proxy has */
export function withGenerated(
  shared: SharedDemand,
  content: Parts,
  before: Parts | undefined,
  later: LaterClusters | undefined,
): LedParts {
  if (later === undefined || before === undefined || LEADING.every((type) => sameBundles(content[type], before[type])))
    return { content, awaited: [] };
  const awaited = new Set<string>();
  const keep = (type: (typeof LEADING)[number]) =>
    content[type].map((bundle, index) => {
      const former = formerOf(bundle, index, content[type], before[type]);
      if (former === undefined || former === bundle) return bundle;
      const missing = [...shared.clustersOf([bundle]).names].filter((cluster) => later.has(cluster));
      for (const cluster of missing) awaited.add(cluster);
      return missing.length === 0 ? bundle : former;
    });
  const kept = { lds: keep('lds'), rds: keep('rds'), ecds: keep('ecds') };
  if (awaited.size === 0) return { content, awaited: [] };
  later.want(awaited);
  return { content: { ...content, ...kept }, awaited: [...awaited] };
}

/** What a proxy had in place of a bundle: the bundle of the same view, or of the one that it has left for this one. */
function formerOf(
  { viewKey }: Bundle,
  index: number,
  all: readonly Bundle[],
  before: readonly Bundle[],
): Bundle | undefined {
  const same = before.find((each) => each.viewKey === viewKey);
  if (same !== undefined || before.length !== all.length) return same;
  const former = before[index];
  return all.some((each) => each.viewKey === former?.viewKey) ? undefined : former;
}
