/** Warnings about annotations and labels of injection that are unknown or without effect. */
import { didYouMean } from '../../../core/nearest.ts';

type Holder = 'annotation' | 'label';

export interface NamesInput {
  /** `metadata.annotations` */
  readonly field: string;
  readonly on: Holder;
  /** By name of `mesh.io`, with the key that the author wrote. */
  readonly values: ReadonlyMap<string, { readonly key: string }>;
  /** The names that injection reads, and where. */
  readonly specs: ReadonlyMap<string, { readonly on: string }>;
}

/** Names that other meshes have and that have no effect here, each with the reason. */
export const ANNOTATIONS_WITHOUT_EFFECT: ReadonlyMap<string, string> = new Map([
  ['readiness.status.sidecar.mesh.io/applicationPorts', 'readiness does not depend on ports'],
  ['sidecar.mesh.io/enableCoreDump', 'core dumps are a setting of the node'],
  ['sidecar.mesh.io/statsCompression', 'metrics are not compressed'],
  ['sidecar.mesh.io/statsEvictionInterval', 'use sidecar.mesh.io/bootstrapOverride'],
  ['sidecar.mesh.io/statsHistogramBuckets', 'use sidecar.mesh.io/bootstrapOverride'],
  ['sidecar.mesh.io/statsInclusionPrefixes', 'use sidecar.mesh.io/bootstrapOverride'],
  ['sidecar.mesh.io/statsInclusionRegexps', 'use sidecar.mesh.io/bootstrapOverride'],
  ['sidecar.mesh.io/statsInclusionSuffixes', 'use sidecar.mesh.io/bootstrapOverride'],
  ['traffic.sidecar.mesh.io/excludeInterfaces', 'mesh-iptables has no such rule'],
]);

/** Written by injection itself. */
const WRITTEN: ReadonlySet<string> = new Set(['sidecar.mesh.io/status', 'proxy.mesh.io/overrides']);

/** Domains of injection only: an unknown name in them is a mistake. */
const DOMAINS = ['sidecar.mesh.io', 'proxy.mesh.io', 'inject.mesh.io', 'prometheus.mesh.io'];

function ofInjection(name: string): boolean {
  const domain = name.slice(0, Math.max(0, name.indexOf('/')));
  return DOMAINS.some((own) => domain === own || domain.endsWith(`.${own}`));
}

/** Finding similar names takes long, and a Pod can have tens of thousands of unknown ones. */
const MAX_SHOWN = 10;

/** One line for each name, and one for the number of further names. */
export function ineffectiveNames({ field, on, values, specs }: NamesInput): readonly string[] {
  const reads = (name: string): boolean => specs.get(name)?.on.includes(on) === true;
  const ineffective = [...values].filter(([name]) => ofInjection(name) && !WRITTEN.has(name) && !reads(name));
  const lines = ineffective.slice(0, MAX_SHOWN).map(([name, { key }]) => `${field}[${key}]: ${problemOf(name, specs)}`);
  const more = ineffective.length - lines.length;
  return more === 0 ? lines : [...lines, `${field}: ${more} more names are unknown or have no effect`];
}

function problemOf(name: string, specs: NamesInput['specs']): string {
  const reason = ANNOTATIONS_WITHOUT_EFFECT.get(name);
  if (reason !== undefined) return `no effect in this version: ${reason}`;
  const known = specs.get(name);
  if (known !== undefined) return `no effect: expected as ${known.on === 'annotation' ? 'an' : 'a'} ${known.on}`;
  return `unknown${didYouMean(name, specs.keys()) || ', and ignored'}`;
}
