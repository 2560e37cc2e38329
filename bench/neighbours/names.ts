/** One stream that subscribes to the endpoints of two million clusters that do not exist. */
import { LARGE_WINDOW } from '../client/frames.ts';
import { GrpcStream } from '../client/grpc-stream.ts';
import { encodeNode, sidecarNode } from '../client/node.ts';
import { DELTA_PATH } from '../client/proxy.ts';
import { asField, deltaHead, encodeNames } from '../client/requests.ts';
import { HOSTILE, HOSTILE_ADDRESS, type Scenario, sized } from './scenario.ts';

const COUNT = 2_000_000;
/** The most that one request may have. */
const NAMES_PER_REQUEST = 200_000;
const RETRY_MS = 100;

function* requests(names: number): Generator<Buffer[]> {
  for (let from = 0; from < names; from += NAMES_PER_REQUEST) {
    const count = Math.min(NAMES_PER_REQUEST, names - from);
    const list = Array.from({ length: count }, (_, index) => `outbound|80||svc-${from + index}.hostile.svc`);
    yield [deltaHead('eds', ''), encodeNames(3, list)];
  }
}

function subscribe(port: number, names: number): void {
  const stream = new GrpcStream({
    port,
    path: DELTA_PATH,
    address: HOSTILE_ADDRESS,
    window: LARGE_WINDOW,
    data: () => {},
    closed: () => void setTimeout(() => subscribe(port, names), RETRY_MS),
  });
  const node = encodeNode(sidecarNode({ index: 0, namespace: HOSTILE, content: 'mtls' }));
  stream.send([...asField(1, node), deltaHead('cds', '')]);
  for (const request of requests(names)) stream.send(request);
}

export const NAMES: Scenario = {
  name: '2 million names',
  about: 'one stream that subscribes to 2 million names, and reconnects when it is closed',
  measured: 'endpoint',
  callers: async ({ grpcPort, load }) => subscribe(grpcPort, sized(COUNT, load)),
};
