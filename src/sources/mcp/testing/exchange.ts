/** Documents for tests of the configuration protocols, and what a sink has of them. */
import { ServedDocuments } from '../../../mcp/index.ts';
import { istio } from '../../../protobuf/index.ts';
import {
  type AnyResource,
  documentLimits,
  keyOf,
  parseResource,
  type ResourceEvent,
  type ResourceKey,
} from '../../../resources/index.ts';

export const LIMITS = documentLimits(1, true, 'mesh-system');

/** A VirtualService or an AuthorizationPolicy of the namespace `shop`; `revision` decides its content. */
export function documentOf(
  kind: 'VirtualService' | 'AuthorizationPolicy',
  name: string,
  revision: number,
): AnyResource {
  const isRoute = kind === 'VirtualService';
  const spec = isRoute
    ? { hosts: [`v${revision}.example.com`], http: [{ route: [{ destination: { host: 'web' } }] }] }
    : { rules: [{ from: [{ source: { namespaces: [`n${revision}`] } }] }] };
  const apiVersion = `${isRoute ? 'networking' : 'security'}.istio.io/v1beta1`;
  const raw = { apiVersion, kind, metadata: { name, namespace: 'shop' }, spec };
  const parsed = parseResource(raw, { source: 'test' }, () => undefined, { limits: LIMITS });
  if (!('resource' in parsed)) throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

/** Documents that change, and are served at once. */
export class ServedWorld {
  readonly documents = new Map<ResourceKey, AnyResource>();
  /** As they were set, by key. */
  readonly revisions = new Map<ResourceKey, number>();
  #announce: (() => void) | undefined;
  readonly served = new ServedDocuments({
    read: (key) => this.documents.get(key),
    delayMs: 0,
    clock: {
      now: () => 0,
      setTimer: (_ms, run) => {
        this.#announce = run;
        return { cancel: () => {} };
      },
    },
    onLeftOut: (key, why) => {
      throw new Error(`${key}: ${why}`);
    },
  });

  set(document: AnyResource, revision = 0): void {
    this.revisions.set(keyOf(document), revision);
    this.documents.set(keyOf(document), document);
    this.#changed(keyOf(document));
  }

  remove(key: ResourceKey): void {
    this.documents.delete(key);
    this.revisions.delete(key);
    this.#changed(key);
  }

  #changed(key: ResourceKey): void {
    this.served.changed([key]);
    const announce = this.#announce;
    this.#announce = undefined;
    announce?.();
  }

  /** Fingerprints by key. */
  fingerprints(): Record<ResourceKey, string> {
    return fingerprintsOf(this.documents);
  }
}

/** What a store has after these events. */
export class EventStore {
  readonly documents = new Map<ResourceKey, AnyResource>();
  readonly problems = new Set<string>();

  apply(events: readonly ResourceEvent[]): void {
    for (const event of events) {
      if (event.type === 'set') {
        this.documents.set(keyOf(event.resource), event.resource);
        this.problems.delete(keyOf(event.resource));
      } else if (event.type === 'delete') {
        this.documents.delete(event.key);
        this.problems.delete(event.key);
      } else if (event.type === 'invalid') this.problems.add(event.problem.id);
      else this.problems.delete(event.id);
    }
  }

  fingerprints(): Record<ResourceKey, string> {
    return fingerprintsOf(this.documents);
  }
}

function fingerprintsOf(documents: ReadonlyMap<ResourceKey, AnyResource>): Record<ResourceKey, string> {
  const entries = [...documents].map(([key, { fingerprint }]) => [key, fingerprint] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A response of MCP. */
export function resourcesMessage(message: istio.mcp.v1alpha1.Resources.Input): Buffer {
  return Buffer.from(istio.mcp.v1alpha1.Resources.encode(message).finish());
}

/** A request of MCP. */
export function requestOf(bytes: Uint8Array): istio.mcp.v1alpha1.RequestResources {
  return istio.mcp.v1alpha1.RequestResources.decode(bytes);
}
