/**
 * Both ends of the configuration protocols against each other, and against peers that do not keep to them: whatever
 * happened, the reader has the documents of the source in the end, and one response at most waits for an answer.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import { finish } from '../../core/slices.ts';
import * as fc from '../../core/testing/properties.ts';
import { BY_COLLECTION, BY_XDS_TYPE, ConfigStream, McpStream } from '../../mcp/index.ts';
import { envoy, google, istio } from '../../protobuf/index.ts';
import { DeltaClient } from './delta-client.ts';
import { McpSink } from './mcp-sink.ts';
import type { ConfigProtocol } from './protocol.ts';
import { ReceivedDocuments } from './received.ts';
import { documentOf, EventStore, LIMITS, requestOf, resourcesMessage, ServedWorld } from './testing/exchange.ts';
import { XdsClient } from './xds-client.ts';

const MAX_BYTES = 1_000_000;

type Reader = Pick<ConfigProtocol, 'open' | 'receive'>;

/** What happens next. */
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('set' as const), name: fc.nat(4), revision: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove' as const), name: fc.nat(4) }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('deliver' as const), toReader: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('settle' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reconnect' as const) }) },
);

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Documents of this revision are spoiled on the way, and so refused by the reader. */
const SPOILED = 3;

function spoiled(bytes: Uint8Array): Uint8Array {
  const resource = istio.mcp.v1alpha1.Resource.decode(bytes);
  const { body } = resource;
  const content = Buffer.from(body?.value ?? []);
  if (body === null || !(content.includes(`v${SPOILED}.`) || content.includes(`n${SPOILED}`))) return bytes;
  return istio.mcp.v1alpha1.Resource.encode({ ...resource, body: { ...body, typeUrl: 'x/y' } }).finish();
}

function spoiledAny(any: Uint8Array): google.protobuf.Any.Input {
  const { typeUrl, value } = google.protobuf.Any.decode(any);
  return { typeUrl, value: spoiled(value) };
}

/** A document is accepted in a response that is refused for another, and is removed later. */
const REMOVED_AFTER_NACK: Step[] = [
  { kind: 'set', name: 0, revision: SPOILED },
  { kind: 'set', name: 2, revision: 1 },
  { kind: 'settle' },
  { kind: 'remove', name: 2 },
];

/** The source's end of a stream. */
interface SourceEnd {
  receive(bytes: Uint8Array): void;
}

/** Messages between the two ends of a stream, in order in each direction. */
class Link {
  readonly toSource: Uint8Array[] = [];
  readonly toReader: Buffer[] = [];
  readonly #source: SourceEnd;
  readonly #reader: Reader;
  readonly #store: EventStore;

  constructor(open: (send: (chunks: readonly Uint8Array[]) => void) => SourceEnd, reader: Reader, store: EventStore) {
    this.#reader = reader;
    this.#store = store;
    this.#source = open((chunks) => void this.toReader.push(Buffer.concat(chunks)));
    this.toSource.push(...reader.open());
  }

  deliver(toReader: boolean): void {
    if (toReader) {
      const message = this.toReader.shift();
      if (message === undefined) return;
      const { events, replies } = finish(this.#reader.receive(message));
      assert.equal(replies.length, 1, 'each response has one answer');
      this.#store.apply(events);
      this.toSource.push(...replies);
    } else {
      const message = this.toSource.shift();
      if (message === undefined) return;
      const before = this.toReader.length;
      this.#source.receive(message);
      assert.ok(this.toReader.length - before <= 1, 'a request has one response at most');
    }
  }

  settle(): void {
    while (this.toReader.length + this.toSource.length > 0) {
      this.deliver(true);
      this.deliver(false);
    }
  }
}

interface Ends {
  readonly reader: Reader;
  open(world: ServedWorld, send: (chunks: readonly Uint8Array[]) => void): SourceEnd;
}

function run(steps: readonly Step[], ends: Ends): void {
  const [world, store] = [new ServedWorld(), new EventStore()];
  const stop = (): void => {};
  const connect = (): Link => {
    stop();
    return new Link((send) => ends.open(world, send), ends.reader, store);
  };
  let link = connect();
  for (const each of steps) {
    if (each.kind === 'set') {
      const kind = each.name % 2 === 0 ? 'VirtualService' : 'AuthorizationPolicy';
      world.set(documentOf(kind, `d${each.name}`, each.revision), each.revision);
    } else if (each.kind === 'remove') {
      world.remove(`${each.name % 2 === 0 ? 'VirtualService' : 'AuthorizationPolicy'}/shop/d${each.name}`);
    } else if (each.kind === 'deliver') link.deliver(each.toReader);
    else if (each.kind === 'settle') link.settle();
    // Messages on their way are lost.
    else link = connect();
  }
  link.settle();
  const refused = new Set([...world.revisions].flatMap(([key, revision]) => (revision === SPOILED ? [key] : [])));
  const without = (all: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(all).filter(([key]) => !refused.has(key)));
  assert.deepEqual(without(store.fingerprints()), without(world.fingerprints()));
  assert.deepEqual([...store.problems].sort(), [...refused].sort());
}

function received(groups: ConstructorParameters<typeof ReceivedDocuments>[0]['groups']): ReceivedDocuments {
  return new ReceivedDocuments({ source: 'far', limits: LIMITS, maxBytes: MAX_BYTES, groups, now: () => 0 });
}

/** Our source. `ignoresVersions`: as that of Istio 1.7, which forgets what it was told at the beginning of a stream. */
function mcpEnds(incremental: boolean, ignoresVersions: boolean): Ends {
  return {
    reader: new McpSink({ documents: received(BY_COLLECTION), node: 'n', incremental }),
    open(world, send) {
      let isFirst = true;
      const stream = new McpStream(
        world.served,
        (chunks) => {
          const response = istio.mcp.v1alpha1.Resources.decode(Buffer.concat(chunks));
          const resources = response.resources.map((each) => {
            const bytes = spoiled(istio.mcp.v1alpha1.Resource.encode(each).finish());
            return istio.mcp.v1alpha1.Resource.decode(bytes);
          });
          // It marks all responses but the first of a stream, whether they have all documents or not.
          const marked = ignoresVersions && incremental ? { incremental: !isFirst } : {};
          send([resourcesMessage({ ...response, resources, ...marked })]);
          isFirst = false;
        },
        () => {},
      );
      world.served.onChange((kinds) => stream.changed(kinds));
      return {
        receive(bytes) {
          const request = requestOf(bytes);
          const told = ignoresVersions ? { ...request, initialResourceVersions: {} } : request;
          stream.receive(istio.mcp.v1alpha1.RequestResources.encode(told).finish());
        },
      };
    },
  };
}

function xdsEnds(): Ends {
  const { DiscoveryRequest, DiscoveryResponse } = envoy.service.discovery.v3;
  return {
    reader: new XdsClient({ documents: received(BY_XDS_TYPE), node: 'n' }),
    open(world, send) {
      const stream = new ConfigStream(world.served, 'sotw', (chunks) => {
        const response = DiscoveryResponse.decode(Buffer.concat(chunks));
        const resources = response.resources.map((any) => spoiledAny(google.protobuf.Any.encode(any).finish()));
        send([DiscoveryResponse.encode({ ...response, resources }).finish()]);
      });
      world.served.onChange((kinds) => stream.changed(kinds));
      return {
        receive(bytes) {
          const { typeUrl, responseNonce, errorDetail } = DiscoveryRequest.decode(bytes);
          stream.receive({ typeUrl, responseNonce, nack: errorDetail?.message });
        },
      };
    },
  };
}

function deltaEnds(): Ends {
  const { DeltaDiscoveryRequest, DeltaDiscoveryResponse } = envoy.service.discovery.v3;
  return {
    reader: new DeltaClient({ documents: received(BY_XDS_TYPE), node: 'n' }),
    open(world, send) {
      const stream = new ConfigStream(world.served, 'delta', (chunks) => {
        const response = DeltaDiscoveryResponse.decode(Buffer.concat(chunks));
        const resources = response.resources.map((each) => ({
          ...each,
          resource: spoiledAny(google.protobuf.Any.encode(each.resource ?? {}).finish()),
        }));
        send([DeltaDiscoveryResponse.encode({ ...response, resources }).finish()]);
      });
      world.served.onChange((kinds) => stream.changed(kinds));
      return {
        receive(bytes) {
          const { typeUrl, responseNonce, errorDetail, initialResourceVersions } = DeltaDiscoveryRequest.decode(bytes);
          const initialVersions = new Map(Object.entries(initialResourceVersions));
          stream.receive({ typeUrl, responseNonce, nack: errorDetail?.message, initialVersions });
        },
      };
    },
  };
}

const ROWS: Readonly<Record<string, () => Ends>> = {
  'MCP, all documents each time': () => mcpEnds(false, false),
  'MCP, changes only': () => mcpEnds(true, false),
  'MCP, changes only, from a source that ignores the versions of a sink': () => mcpEnds(true, true),
  'configuration over xDS': () => xdsEnds(),
  'configuration over xDS, Delta': () => deltaEnds(),
};

for (const [name, ends] of Object.entries(ROWS)) {
  test(`${name}: a reader has the documents of its source after any changes, refusals and reconnections`, () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => run(steps, ends())),
      { numRuns: 150, examples: [[REMOVED_AFTER_NACK]] },
    );
  });
}

const collection = fc.constantFrom('istio/networking/v1alpha3/virtualservices', 'istio/x', '', 'trigger');
const resource = fc.record({
  metadata: fc.record({
    name: fc.constantFrom('shop/a', 'shop/b', 'a', '', '/'),
    version: fc.constantFrom('', '1', '2'),
  }),
  body: fc.option(
    fc.record({
      typeUrl: fc.constantFrom('type.googleapis.com/istio.networking.v1alpha3.VirtualService', 'x/y', ''),
      value: fc.uint8Array({ maxLength: 12 }),
    }),
  ),
});

test('a source that lies cannot stop a sink: each message has one answer, and one error at most', () => {
  const message = fc.record({
    collection,
    nonce: fc.constantFrom('', '1', '2'),
    incremental: fc.boolean(),
    resources: fc.array(resource, { maxLength: 4 }),
    removedResources: fc.array(fc.constantFrom('shop/a', 'no/such', ''), { maxLength: 2 }),
  });
  const bytes = fc.oneof(
    message.map(resourcesMessage),
    fc.uint8Array({ maxLength: 40 }).map((raw) => Buffer.from(raw)),
  );
  fc.assert(
    fc.property(fc.array(bytes, { maxLength: 12 }), fc.boolean(), (messages, incremental) => {
      const documents = received(BY_COLLECTION);
      const [sink, store] = [new McpSink({ documents, node: 'n', incremental }), new EventStore()];
      sink.open();
      for (const each of messages) {
        try {
          const { events, replies } = finish(sink.receive(each));
          assert.equal(replies.length, 1);
          store.apply(events);
        } catch (error) {
          assert.ok(error instanceof CtlError, String(error));
        }
      }
      // A name is a document or a problem.
      assert.ok(store.documents.size + store.problems.size <= 5);
      assert.ok(documents.size <= 5);
    }),
    { numRuns: 500 },
  );
});

test('a sink that lies gets one response at most for each collection before it answers', () => {
  const request = fc.record({
    collection,
    responseNonce: fc.constantFrom('', '1', '2', '3', 'x'),
    incremental: fc.boolean(),
    errorDetail: fc.option(fc.record({ code: fc.constant(3), message: fc.string({ maxLength: 9 }) })),
  });
  fc.assert(
    fc.property(fc.array(fc.oneof(request, fc.nat(3)), { maxLength: 30 }), (steps) => {
      const world = new ServedWorld();
      /** Nonce of the response without an answer, by collection. */
      const waiting = new Map<string, string>();
      const stream = new McpStream(
        world.served,
        (chunks) => {
          const response = istio.mcp.v1alpha1.Resources.decode(Buffer.concat(chunks));
          assert.equal(waiting.get(response.collection), undefined, 'two responses wait for an answer');
          waiting.set(response.collection, response.nonce);
        },
        () => {},
      );
      world.served.onChange((kinds) => stream.changed(kinds));
      for (const each of steps) {
        if (typeof each === 'number') world.set(documentOf('VirtualService', 'a', each));
        else {
          if (waiting.get(each.collection) === each.responseNonce) waiting.delete(each.collection);
          stream.receive(istio.mcp.v1alpha1.RequestResources.encode(each).finish());
        }
      }
    }),
    { numRuns: 500 },
  );
});
