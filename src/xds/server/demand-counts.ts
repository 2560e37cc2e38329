/** The proxies of a server by what they get of the mesh; read at every scrape of metrics. */
import { SIDECAR_CONFIGURATIONS, type SidecarConfiguration } from '../../core/proxy.ts';

/** One proxy. */
export interface DemandCount {
  readonly configuration: SidecarConfiguration;
  /** It gets everything because it asked for too many hosts. */
  readonly isOverLimit: boolean;
  /** Virtual hosts that it holds, if it does not get everything. */
  readonly hosts: number;
}

export interface DemandCounts {
  readonly proxies: Readonly<Record<SidecarConfiguration, number>>;
  readonly overLimit: number;
  readonly hosts: number;
}

export function demandCounts(all: Iterable<{ readonly demandCount: DemandCount | undefined }>): DemandCounts {
  const proxies = Object.fromEntries(SIDECAR_CONFIGURATIONS.map((each) => [each, 0])) as Record<
    SidecarConfiguration,
    number
  >;
  let [overLimit, hosts] = [0, 0];
  for (const { demandCount } of all) {
    if (demandCount === undefined) continue;
    proxies[demandCount.configuration]++;
    hosts += demandCount.hosts;
    if (demandCount.isOverLimit) overLimit++;
  }
  return { proxies, overLimit, hosts };
}
