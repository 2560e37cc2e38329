/** What the proxy of a session can do, by its outbound view. Asked for several times for each response. */
import type { Capabilities, View } from '../../generate/index.ts';

/** Immutable: a session that moves has another list. */
type Views = readonly { readonly view: { readonly view: View } }[];

export class Outbound {
  #views: Views | undefined;
  #capabilities: Capabilities | undefined;

  /** @param next the views that it moves to; these count while it has none */
  capabilities(current: Views, next: Views | undefined): Capabilities | undefined {
    const views = current.length > 0 ? current : next;
    if (views !== this.#views) {
      this.#views = views;
      this.#capabilities = views && capabilitiesIn(views);
    }
    return this.#capabilities;
  }
}

function capabilitiesIn(views: Views): Capabilities | undefined {
  for (const { view } of views) if (view.view.part === 'outbound') return view.view.capabilities;
  return undefined;
}
