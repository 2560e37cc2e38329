/** What the proxies of streams hold that ask for what they use, for debug pages. */
import type { HeldContent } from '../on-demand/index.ts';

interface ExplainedStream {
  readonly connectionId: string | undefined;
  held(): HeldContent | undefined;
}

/** By connection ID; computed when it is read, which should be soon. */
export type HeldByStream = ReadonlyMap<string, () => HeldContent | undefined>;

export function heldByStream(streams: Iterable<ExplainedStream>): HeldByStream {
  const held = new Map<string, () => HeldContent | undefined>();
  for (const stream of streams)
    if (stream.connectionId !== undefined) held.set(stream.connectionId, () => stream.held());
  return held;
}
