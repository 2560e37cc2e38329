/**
 * A relay between a model of a control plane and a model of a client. Messages wait in queues, so that any of them can
 * be in flight when something happens. Nonces of the control plane begin at 1 on each stream.
 */
import assert from 'node:assert/strict';
import * as fc from '../../../core/testing/properties.ts';
import { XDS } from '../../../core/xds-types.ts';
import type { Variant } from '../messages.ts';
import { Relay } from '../relay.ts';
import { Snapshot } from '../snapshot.ts';
import { ModelClient, valueIn } from './model-client.ts';
import { ModelServer } from './model-server.ts';

/** One wildcard type and one of names. */
const TYPES: readonly string[] = [XDS.cds.url, XDS.eds.url];
const NAMES = ['a', 'b', 'c'] as const;

export type Action =
  | { readonly kind: 'change'; readonly type: number; readonly name: string; readonly bad: boolean }
  | { readonly kind: 'remove'; readonly type: number; readonly name: string }
  | { readonly kind: 'subscribe' | 'unsubscribe'; readonly name: string }
  | { readonly kind: 'toRelay' | 'toClient' | 'fromRelay' | 'toServer' }
  | { readonly kind: 'attach' | 'detach' | 'offline' | 'restart' };

const name = fc.constantFrom(...NAMES);
const type = fc.constantFrom(0, 1);

export const actions: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ kind: fc.constant('change' as const), type, name, bad: fc.boolean() }),
  fc.record({ kind: fc.constant('remove' as const), type, name }),
  fc.record({ kind: fc.constantFrom('subscribe' as const, 'unsubscribe' as const), name }),
  { weight: 5, arbitrary: fc.record({ kind: fc.constantFrom('toRelay', 'toClient', 'fromRelay', 'toServer') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('attach', 'detach', 'offline', 'restart') }) },
) as fc.Arbitrary<Action>;

export class World {
  readonly #variant: Variant;
  readonly #snapshot: Snapshot;
  readonly #server: ModelServer;
  readonly #responses = new Map<string, string>();
  #client!: ModelClient;
  #relay!: Relay;
  #attached = false;
  #values = 0;
  #ids = 0;
  #relays = 0;
  readonly #content = new Map(TYPES.map((url) => [url, new Map<string, string>()]));
  /** Messages in flight. */
  #clientToRelay: Buffer[] = [];
  #relayToClient: Buffer[] = [];
  #relayToServer: Buffer[] = [];
  #serverToRelay: Buffer[] = [];

  constructor(variant: Variant) {
    this.#variant = variant;
    this.#snapshot = new Snapshot(variant, 0);
    const acknowledged = (id: string): void => {
      const bytes = this.#responses.get(id) ?? 'unknown';
      // The relay may have appended another nonce.
      const isAccepted = [...this.#client.accepted].some((accepted) => accepted.startsWith(bytes));
      assert.ok(isAccepted, `response ${id} was not accepted`);
    };
    this.#server = new ModelServer(
      variant,
      (url) => this.#of(url),
      () => String(++this.#ids),
      acknowledged,
    );
    this.#start();
  }

  #start(): void {
    this.#clientToRelay = [];
    this.#relayToClient = [];
    this.#client = new ModelClient(this.#variant, (bytes) => void this.#clientToRelay.push(bytes));
    this.#relay = new Relay(this.#variant, `snapshot-${++this.#relays}-`, {
      toClient: (bytes) => void this.#relayToClient.push(bytes),
      toUpstream: (bytes) => void this.#relayToServer.push(bytes),
      identified: () => this.#snapshot,
      rejected: () => undefined,
      servedFromSnapshot: () => undefined,
      unavailable: () => undefined,
    });
  }

  run(action: Action): void {
    switch (action.kind) {
      case 'change': {
        const value = `${action.bad && this.#variant === 'delta' ? 'bad' : 'good'}${++this.#values}`;
        this.#contentOf(action.type).set(action.name, value);
        break;
      }
      case 'remove':
        this.#contentOf(action.type).delete(action.name);
        break;
      case 'subscribe':
        this.#client.subscribe(action.name);
        break;
      case 'unsubscribe':
        this.#client.unsubscribe(action.name);
        break;
      case 'attach':
        this.#attach();
        break;
      case 'detach':
        this.#detach();
        break;
      case 'offline':
        if (!this.#attached) this.#relay.goOffline();
        break;
      case 'restart':
        this.#detach();
        this.#start();
        break;
      default:
        this.#step(action.kind);
    }
  }

  #contentOf(index: number): Map<string, string> {
    return this.#of(TYPES[index] ?? '');
  }

  #of(url: string): Map<string, string> {
    return this.#content.get(url) ?? new Map();
  }

  #attach(): void {
    if (this.#attached || !this.#relay.started) return;
    this.#attached = true;
    this.#server.open();
    this.#relay.attach();
  }

  #detach(): void {
    if (!this.#attached) return;
    this.#attached = false;
    this.#server.close();
    this.#relayToServer = [];
    this.#serverToRelay = [];
    this.#relay.detach();
  }

  /** Moves one message; false when there is none. */
  #step(kind: 'toRelay' | 'toClient' | 'fromRelay' | 'toServer'): boolean {
    if (kind === 'toRelay') {
      const bytes = this.#clientToRelay.shift();
      if (bytes !== undefined) this.#relay.fromClient(bytes, 0);
      return bytes !== undefined;
    }
    if (kind === 'toClient') {
      const bytes = this.#relayToClient.shift();
      if (bytes !== undefined) this.#client.receive(bytes);
      return bytes !== undefined;
    }
    if (kind === 'toServer') {
      const bytes = this.#relayToServer.shift();
      if (bytes !== undefined) this.#server.receive(bytes);
      return bytes !== undefined;
    }
    const next = this.#server.next();
    if (next !== undefined) {
      this.#responses.set(String(this.#ids), next.toString('hex'));
      this.#serverToRelay.push(next);
    }
    const bytes = this.#serverToRelay.shift();
    if (bytes !== undefined) this.#relay.fromUpstream(bytes);
    return bytes !== undefined;
  }

  /** Everything becomes good and reachable, and all messages arrive. */
  settle(): void {
    for (const type of [0, 1])
      for (const [name, value] of this.#contentOf(type))
        if (value.startsWith('bad')) this.run({ kind: 'change', type, name, bad: false });
    for (let moved = true; moved; ) {
      moved = false;
      this.#attach();
      for (const kind of ['toRelay', 'toServer', 'fromRelay', 'toClient'] as const) moved = this.#step(kind) || moved;
    }
  }

  /** What the client has of what it subscribes to. */
  clientResources(): Record<string, Record<string, string>> {
    return Object.fromEntries(TYPES.map((url) => [url, sorted(new Map(this.#subscribed(url)))]));
  }

  #subscribed(url: string): [string, string][] {
    const resources = [...(this.#client.resources.get(url) ?? [])];
    return resources.filter(([each]) => url === XDS.cds.url || this.#client.names.has(each));
  }

  expectedResources(): Record<string, Record<string, string>> {
    const endpoints = [...this.#of(XDS.eds.url)].filter(([each]) => this.#client.names.has(each));
    return {
      [XDS.cds.url]: sorted(this.#of(XDS.cds.url)),
      // State of the World cannot report that endpoints do not exist any more.
      [XDS.eds.url]: this.#variant === 'delta' ? sorted(new Map(endpoints)) : this.#stillThere(endpoints),
    };
  }

  #stillThere(endpoints: readonly (readonly [string, string])[]): Record<string, string> {
    const gone = this.#subscribed(XDS.eds.url).filter(([each]) => !this.#of(XDS.eds.url).has(each));
    return sorted(new Map([...endpoints, ...gone]));
  }

  snapshotResources(): Record<string, Record<string, string>> {
    return Object.fromEntries(
      TYPES.map((url) => {
        // What an earlier client has subscribed to stays until this one has received something of the type.
        const isFollowed = this.#client.resources.has(url);
        const resources = isFollowed ? [...(this.#snapshot.get(url)?.resources ?? [])] : [];
        return [url, sorted(new Map(resources.map(([each, resource]) => [each, valueIn(this.#variant, resource)])))];
      }),
    );
  }
}

function sorted(map: ReadonlyMap<string, string>): Record<string, string> {
  return Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
}
