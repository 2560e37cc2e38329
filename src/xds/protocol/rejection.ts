/**
 * After a NACK: which resources are to blame, and keeping them from the proxy in that version while the rest is served.
 *
 * Envoy names clusters and listeners that it could not add, and quotes messages that fail validation; about anything
 * else (an Any that does not parse, some routes) it says only what is wrong. Then the changed resources are sent in
 * halves until the culprits are alone. The message forms were seen with Envoy 1.40.
 */
import type { EncodedResource } from '../../push/types.ts';

/**
 * Responses that one search may take. Halving finds one culprit among 16,000 resources with 2 x 14 messages; a proxy
 * that rejects more than that rejects on principle, and everything still in doubt is kept back.
 */
export const MAX_SEARCH_RESPONSES = 64;

const NAMED = /^Error adding\/updating (?:cluster|listener)\(s\):? /;

/** First fields of a quoted message, at the beginning of a line: inner messages are indented. */
const QUOTED = /^(?:cluster_)?name: "(.*)"$/gm;

/**
 * Resources of `sent` that Envoy's message names: `Error adding/updating cluster(s) <name>: <what>, <name>: <what>`,
 * and for listeners `Error adding/updating listener(s) <name>: <what>\n<name>: <what>`. Names and texts may hold
 * anything, so that known names are looked for where an entry can begin instead of splitting. `Proto constraint
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

/** What is kept back from one proxy, of one type. */
export class Rejections {
  /** Name → version that the proxy rejected. */
  readonly quarantined = new Map<string, string>();
  /** Groups in doubt, by name → version; only the first is being tried, the others wait. */
  #groups: ReadonlyMap<string, string>[] = [];
  #responses = 0;

  /** True while a search goes on: after the ACK there is more to send. */
  get searching(): boolean {
    return this.#groups.length > 0;
  }

  get empty(): boolean {
    return this.quarantined.size === 0 && this.#groups.length === 0;
  }

  /** True when this version must not be sent now. */
  holds(name: string, version: string): boolean {
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
   * Takes in a NACK of a response in which `changed` was new to the proxy. Returns the names that are kept back from
   * now on.
   */
  rejected(message: string, changed: readonly EncodedResource[]): string[] {
    const named = namedInNack(message, changed);
    if (named.length > 0) return this.#quarantine(named);
    this.#groups.shift();
    this.#responses++;
    if (changed.length > 1 && this.#responses < MAX_SEARCH_RESPONSES) {
      // In an order of their own: that of a response is the one in which some proxy named them first.
      const ordered = changed.toSorted((a, b) => (a.name < b.name ? -1 : 1));
      const middle = ordered.length >> 1;
      this.#groups.unshift(versions(ordered.slice(0, middle)), versions(ordered.slice(middle)));
      return [];
    }
    const culprits = this.#quarantine(changed);
    if (this.#responses >= MAX_SEARCH_RESPONSES) {
      for (const group of this.#groups)
        for (const [name, version] of group) {
          this.quarantined.set(name, version);
          culprits.push(name);
        }
      this.#groups = [];
    }
    if (this.#groups.length === 0) this.#responses = 0;
    return culprits;
  }

  /** Forgets rejected versions that are no longer what would be sent. */
  prune(current: (name: string) => EncodedResource | undefined): void {
    for (const [name, version] of this.quarantined)
      if (current(name)?.version !== version) this.quarantined.delete(name);
  }

  #quarantine(resources: readonly EncodedResource[]): string[] {
    for (const { name, version } of resources) this.quarantined.set(name, version);
    return resources.map(({ name }) => name);
  }
}

function versions(resources: readonly EncodedResource[]): ReadonlyMap<string, string> {
  return new Map(resources.map(({ name, version }) => [name, version]));
}
