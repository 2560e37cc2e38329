/**
 * Finds out which resources a proxy rejected with a NACK, and quarantines those versions while the rest is served.
 *
 * Envoy names clusters and listeners that it could not add, and quotes messages that fail validation. For anything else
 * (an Any that cannot be parsed, some routes) it gives only the reason. Then the changed resources are sent in halves,
 * until the rejected ones are alone. The message formats are those of Envoy 1.40.
 */
import type { EncodedResource } from '../../push/index.ts';

/**
 * Most responses of one search. Halving finds one rejected resource among 16,000 with 2 x 14 responses. A proxy that
 * rejects more than this rejects everything: all resources that are still suspected are quarantined.
 */
export const MAX_SEARCH_RESPONSES = 64;

const NAMED = /^Error adding\/updating (?:cluster|listener)\(s\):? /;

/** The first field of a quoted message, at the start of a line: nested messages are indented. */
const QUOTED = /^(?:cluster_)?name: "(.*)"$/gm;

/**
 * Resources of `sent` that Envoy's message names: `Error adding/updating cluster(s) <name>: <what>, <name>: <what>`,
 * and for listeners `Error adding/updating listener(s) <name>: <what>\n<name>: <what>`. Names and texts may contain
 * any character, so the message is not split: known names are looked for where an entry can begin. `Proto constraint
 * validation failed` quotes the whole resource.
 */
export function namedInNack(message: string, sent: readonly EncodedResource[]): EncodedResource[] {
  const head = NAMED.exec(message);
  if (head === null) {
    const quoted = new Set(Array.from(message.matchAll(QUOTED), (match) => match[1]));
    return sent.filter(({ name }) => quoted.has(name));
  }
  const text = message.slice(head[0].length);
  return sent.filter(({ name }) => {
    const entry = `${name}: `;
    return text.startsWith(entry) || text.includes(`, ${entry}`) || text.includes(`\n${entry}`);
  });
}

/** The quarantined resources of one type of one proxy, and the search for them. */
export class Rejections {
  /** Name → version that the proxy rejected. */
  readonly quarantined = new Map<string, string>();
  /** Groups of suspected resources, name → version; the first is being tried, the others wait. */
  #groups: ReadonlyMap<string, string>[] = [];
  #responses = 0;

  /** True during a search: there is more to send after the ACK. */
  get searching(): boolean {
    return this.#groups.length > 0;
  }

  get empty(): boolean {
    return this.quarantined.size === 0 && this.#groups.length === 0;
  }

  /** True when this version must not be sent now. */
  isHeldBack(name: string, version: string): boolean {
    return this.quarantined.get(name) === version || this.waits(name, version);
  }

  /** True when this version will be tried later in the search. */
  waits(name: string, version: string): boolean {
    for (let index = 1; index < this.#groups.length; index++)
      if (this.#groups[index]?.get(name) === version) return true;
    return false;
  }

  acknowledged(): void {
    this.#groups.shift();
    if (this.#groups.length === 0) this.#responses = 0;
  }

  /**
   * Processes a NACK of a response in which `changed` was new to the proxy. Returns the names that it quarantines.
   */
  rejected(message: string, changed: readonly EncodedResource[]): string[] {
    const named = namedInNack(message, changed);
    if (named.length > 0) return this.#quarantine(named);
    this.#groups.shift();
    this.#responses++;
    if (changed.length > 1 && this.#responses < MAX_SEARCH_RESPONSES) {
      // Sorted: the order in a response is that in which the first of the proxies named them.
      const ordered = changed.toSorted((a, b) => (a.name < b.name ? -1 : 1));
      const middle = ordered.length >> 1;
      this.#groups.unshift(versionsOf(ordered.slice(0, middle)), versionsOf(ordered.slice(middle)));
      return [];
    }
    const quarantined = this.#quarantine(changed);
    if (this.#responses >= MAX_SEARCH_RESPONSES) {
      for (const group of this.#groups)
        for (const [name, version] of group) {
          this.quarantined.set(name, version);
          quarantined.push(name);
        }
      this.#groups = [];
    }
    if (this.#groups.length === 0) this.#responses = 0;
    return quarantined;
  }

  /** Ends the quarantine of versions that are no longer current. */
  prune(current: (name: string) => EncodedResource | undefined): void {
    for (const [name, version] of this.quarantined)
      if (current(name)?.version !== version) this.quarantined.delete(name);
  }

  #quarantine(resources: readonly EncodedResource[]): string[] {
    for (const { name, version } of resources) this.quarantined.set(name, version);
    return resources.map(({ name }) => name);
  }
}

function versionsOf(resources: readonly EncodedResource[]): ReadonlyMap<string, string> {
  return new Map(resources.map(({ name, version }) => [name, version]));
}
