/** A source of configuration whose streams the test plays. */
import assert from 'node:assert/strict';
import { fakeClock } from '../../../core/testing/fake-clock.ts';
import type { ClientStreamHandler, StreamTls } from '../../../grpc/index.ts';
import { BY_COLLECTION, BY_XDS_TYPE } from '../../../mcp/index.ts';
import type { ResourceEvent } from '../../../resources/index.ts';
import type { SourceSink } from '../../source.ts';
import { createConfigSource, type FollowedTls } from '../config-source.ts';
import { McpSink } from '../mcp-sink.ts';
import { ReceivedDocuments } from '../received.ts';
import { XdsConfig } from '../xds-config.ts';
import { EventStore, LIMITS, resourcesMessage } from './exchange.ts';

export const COLLECTIONS = [...BY_COLLECTION.keys()];
export const ROUTES = 'istio/networking/v1alpha3/virtualservices';
const STREAM = {
  maxMessageBytes: 1000,
  streamWindow: 65_535,
  connectionWindow: 65_535,
  connectTimeoutMs: 1000,
  keepaliveMs: 1000,
  keepaliveTimeoutMs: 1000,
};

export interface Opened {
  readonly path: string;
  readonly keepaliveMs: number;
  readonly handler: ClientStreamHandler;
  readonly tls: StreamTls | undefined;
  readonly sent: Uint8Array[];
  closed: boolean;
}

/** A source whose streams the test plays. */
export function played(
  tls?: FollowedTls,
  xds = false,
  maxBytes = 100_000,
  applyInSlices?: NonNullable<SourceSink['applyInSlices']>,
  delays?: NonNullable<SourceSink['delays']>,
  refusals?: NonNullable<SourceSink['refusals']>,
) {
  const clock = fakeClock();
  const [streams, lines, store]: [Opened[], string[], EventStore] = [[], [], new EventStore()];
  let reconnections = 0;
  const log = (line: string): void => void lines.push(line);
  const options = { source: 'mcp://far', limits: LIMITS, groups: xds ? BY_XDS_TYPE : BY_COLLECTION, now: clock.now };
  const documents = new ReceivedDocuments({ ...options, maxBytes });
  const source = createConfigSource({
    id: 'mcp://far',
    cluster: 'c',
    host: 'far',
    port: 1,
    protocol: xds ? new XdsConfig({ documents, node: 'n' }) : new McpSink({ documents, node: 'n', incremental: false }),
    stream: STREAM,
    tls,
    onReconnect: () => {
      reconnections += 1;
    },
    clock,
    random: () => 0,
    log: { debug: log, info: log, warn: log, error: log },
    openStream: (target, { keepaliveMs }, handler) => {
      const opened: Opened = { path: target.path, keepaliveMs, handler, tls: target.tls, sent: [], closed: false };
      streams.push(opened);
      return {
        send: (message) => void opened.sent.push(message),
        read: () => {},
        close: () => {
          opened.closed = true;
        },
      };
    },
  });
  const batches: number[] = [];
  const apply = (events: readonly ResourceEvent[]): void => {
    batches.push(events.length);
    store.apply(events);
  };
  source.start({
    apply,
    ...(applyInSlices !== undefined && { applyInSlices }),
    ...(delays !== undefined && { delays }),
    ...(refusals !== undefined && { refusals }),
    replace: () => assert.fail(),
    changing: () => {},
  });
  let synced = false;
  void source.synced.then(() => {
    synced = true;
  });
  return { clock, streams, lines, store, batches, source, isSynced: () => synced, reconnections: () => reconnections };
}

export function answer({ handler }: Opened, collection: string, names: readonly string[] = []): void {
  const resources = names.map((name) => ({
    metadata: { name, version: '1' },
    body: { typeUrl: 'type.googleapis.com/istio.networking.v1alpha3.VirtualService', value: ROUTE },
  }));
  handler.message(resourcesMessage({ collection, nonce: `n-${collection}`, resources }));
}

/** `hosts: [a.example.com]`, `http: [{redirect: {uri: /b}}]` */
export const ROUTE = Uint8Array.from([
  ...[0x0a, 13, ...Buffer.from('a.example.com')],
  ...[0x1a, 6, 0x1a, 4, 0x0a, 2, ...Buffer.from('/b')],
]);

export async function first(streams: readonly Opened[], index = 0): Promise<Opened> {
  await new Promise((resolve) => setImmediate(resolve));
  const stream = streams[index];
  assert.ok(stream, `no stream ${index}`);
  return stream;
}
