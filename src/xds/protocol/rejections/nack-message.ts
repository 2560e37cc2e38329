/**
 * The names of rejected resources in the error message of a NACK. The message formats are those of Envoy 1.40. The cost
 * follows the length of the message, which is limited, whatever its content.
 */
import type { EncodedResource } from '../../../push/index.ts';

const NAMED = /^Error adding\/updating (?:cluster|listener)\(s\):? /;

/** The first field of a quoted message, at the start of a line: nested messages are indented. */
const QUOTED = /^(?:cluster_)?name: "(.*)"$/gm;

/** Where an entry may begin. */
const ENTRY = /, |\n/g;

/** The separator after a name. */
const AFTER_NAME = ': ';

/** Maximum number of possible ends of a name that are tried: names may contain the separator. */
const MAX_ENDS = 4;

/** Longer strings are not names: generated names have fewer than 300 characters. */
const MAX_NAME = 512;

/**
 * Resources of `sent` that Envoy's message names: `Error adding/updating cluster(s) <name>: <what>, <name>: <what>`,
 * and for listeners `Error adding/updating listener(s) <name>: <what>\n<name>: <what>`. Names and messages may contain
 * any character, so the message is not split: names are looked up where an entry can begin. `Proto constraint
 * validation failed` quotes the whole resource.
 */
export function namedInNack(message: string, sent: readonly EncodedResource[]): EncodedResource[] {
  const head = NAMED.exec(message);
  const names = head === null ? quoted(message) : entries(message, head[0].length);
  return names.size === 0 ? [] : sent.filter(({ name }) => names.has(name));
}

function quoted(message: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const [, name = ''] of message.matchAll(QUOTED)) names.add(name);
  return names;
}

/** Everything from `start` on that can be the name of an entry. */
function entries(message: string, start: number): ReadonlySet<string> {
  const ends = positionsOf(message, AFTER_NAME, start);
  const names = new Set<string>();
  let next = 0;
  const addFrom = (begin: number): void => {
    while ((ends[next] ?? message.length) < begin) next++;
    for (const end of ends.slice(next, next + MAX_ENDS))
      if (end - begin <= MAX_NAME) names.add(message.slice(begin, end));
  };
  addFrom(start);
  ENTRY.lastIndex = start;
  for (let at = ENTRY.exec(message); at !== null; at = ENTRY.exec(message)) addFrom(ENTRY.lastIndex);
  return names;
}

function positionsOf(text: string, part: string, start: number): number[] {
  const positions: number[] = [];
  for (let at = text.indexOf(part, start); at >= 0; at = text.indexOf(part, at + 1)) positions.push(at);
  return positions;
}
