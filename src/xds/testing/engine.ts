/** Test support: an engine of one view. A session has one push at a time; publications meanwhile are merged. */

import type { ProxyNode } from '../../core/proxy.ts';
import type { XdsType } from '../../core/xds-types.ts';
import type { Push } from '../../push/push.ts';
import type { ProxySession, PushEngine, PushSink } from '../../push/types.ts';
import type { XdsObserver } from '../server/observer.ts';
import type { Content } from './content.ts';

export class FakeEngine implements PushEngine {
  readonly #content: Content;
  readonly #publishers = new Set<() => void>();
  #held: (() => void)[] = [];
  #counter = 0;
  open = 0;
  requests = 0;
  /** While true, sessions do not become ready. */
  hold = false;
  readonly synced: number[] = [];

  constructor(content: Content) {
    this.#content = content;
  }

  publish(): void {
    for (const push of this.#publishers) push();
  }

  release(): void {
    this.hold = false;
    for (const go of this.#held.splice(0)) go();
  }

  connect(node: ProxyNode, sink: PushSink): ProxySession {
    let pushing = false;
    let again = false;
    let closed = false;
    const pending: Push = { types: new Set<XdsType>(), version: 0, eventTime: 0, reasons: new Set() };
    const push = (): void => {
      if (pushing) again = true;
      if (pushing || closed) return;
      pushing = true;
      Promise.resolve(sink.push(pending)).then(() => {
        pushing = false;
        if (!again) return;
        again = false;
        push();
      });
    };
    this.open++;
    this.#publishers.add(push);
    return {
      node,
      connectionId: `${node.id}-${++this.#counter}`,
      onDemand: undefined,
      namedHosts: [],
      laterClusters: undefined,
      laterHosts: undefined,
      hold: () => {},
      ready: this.hold ? new Promise((resolve) => this.#held.push(resolve)) : Promise.resolve(),
      content: () => this.#content.parts,
      parts: this.#content.partsOf,
      version: () => this.#content.version,
      completeVersion: () => this.#content.version,
      request: () => {
        this.requests++;
        setImmediate(push);
      },
      need: () => undefined,
      begun: false,
      synced: (version) => this.synced.push(version),
      answered: () => {},
      close: () => {
        closed = true;
        this.open--;
        this.#publishers.delete(push);
      },
    };
  }
}

export const quietObserver: XdsObserver = {
  connected: () => {},
  disconnected: () => {},
  pushed: () => {},
  sendFailed: () => {},
  rejected: () => {},
  asked: () => {},
  expiredNonce: () => {},
  writeTimeout: () => {},
  requestTooLarge: () => {},
  refused: () => {},
  endedEarly: () => {},
  unknownType: () => {},
  internalError: () => {},
};
