/** The proxies of a server by what they get of the mesh, and what those hold that ask for it. */
import type { SidecarConfiguration } from '../../../core/proxy.ts';
import type { HeldContent } from '../../on-demand/index.ts';

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

interface DemandStream {
  readonly connectionId: string | undefined;
  readonly demandCount: DemandCount | undefined;
  held(): HeldContent | undefined;
}

export class DemandOfStreams {
  readonly #streams: Iterable<DemandStream>;

  /** @param streams the live ones, whenever they are read */
  constructor(streams: Iterable<DemandStream>) {
    this.#streams = streams;
  }

  /** Read at every scrape of metrics. */
  counts(): DemandCounts {
    const proxies = { all: 0, 'on-demand': 0, learned: 0 };
    let [overLimit, hosts] = [0, 0];
    for (const { demandCount } of this.#streams) {
      if (demandCount === undefined) continue;
      proxies[demandCount.configuration]++;
      hosts += demandCount.hosts;
      if (demandCount.isOverLimit) overLimit++;
    }
    return { proxies, overLimit, hosts };
  }

  /** What each proxy holds, by connection ID; computed when it is read, which should be soon. */
  held(): ReadonlyMap<string, () => HeldContent | undefined> {
    const held = new Map<string, () => HeldContent | undefined>();
    for (const stream of this.#streams)
      if (stream.connectionId !== undefined) held.set(stream.connectionId, () => stream.held());
    return held;
  }
}
