/** Reviews of Pods and documents as an API server asks for them, while routes change: how they delay each other. */
import { Agent } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { call, documentReview, podReview, VALID_DOCUMENT } from '../../src/webhooks/testing/webhook-client.ts';
import { type Bench, type BenchContext, changeUnderLoad, joinProxies, type Mesh, withMesh } from '../mesh.ts';
import { latencyOf, type Row } from '../results.ts';

const REQUESTS_PER_SECOND = 200;

/** Connections of the API servers. */
const CONNECTIONS = 8;

/** Routes that are changed for each row at most, one each second. */
const MAX_CHANGES = 10;

/** Requests before the measured ones: the thread loads its code, and connections are made. */
const WARM_UP = 100;

const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { generateName: 'web-7d4b9-', labels: { app: 'web', version: 'v1' } },
  spec: {
    serviceAccountName: 'web',
    containers: [
      {
        name: 'web',
        image: 'example.com/web:1',
        ports: [{ containerPort: 8080 }],
        env: Array.from({ length: 20 }, (_, index) => ({ name: `VARIABLE_${index}`, value: 'x'.repeat(20) })),
        readinessProbe: { httpGet: { path: '/ready', port: 8080 } },
      },
    ],
  },
};

const BODIES = [
  ['/inject', podReview(POD)],
  ['/validate', documentReview(VALID_DOCUMENT)],
] as const;

/** Asks at a fixed rate until it is ended. */
class Load {
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  readonly #open = new Set<Promise<void>>();
  readonly #latencies: number[] = [];
  #ended = false;

  constructor(port: number) {
    this.#port = port;
  }

  async run(): Promise<void> {
    const start = performance.now();
    for (let number = 0; !this.#ended; number++) {
      const at = start + (number * 1000) / REQUESTS_PER_SECOND;
      const wait = at - performance.now();
      if (wait > 1) await delay(wait);
      const asked = this.#ask(number, at).finally(() => this.#open.delete(asked));
      this.#open.add(asked);
    }
    await Promise.all(this.#open);
    this.#agent.destroy();
  }

  /** Milliseconds from the time at which a request was to be sent until its answer. */
  async end(running: Promise<void>): Promise<number[]> {
    this.#ended = true;
    await running;
    return this.#latencies.slice(WARM_UP);
  }

  async #ask(number: number, at: number): Promise<void> {
    const [path, body] = BODIES[number % BODIES.length] ?? BODIES[0];
    const { status, text } = await call(this.#port, path, { body, agent: this.#agent });
    if (status !== 200 || !text.includes('"allowed":true')) throw new Error(`${path}: ${status} ${text.slice(0, 200)}`);
    this.#latencies.push(performance.now() - at);
  }
}

/**
 * Changes a route each second. The server is not idle between the changes, so they are not separate rounds.
 * Milliseconds until each proxy had it, by change.
 */
async function routes(context: BenchContext, mesh: Mesh, first: number): Promise<number[][]> {
  const latencies: number[][] = [];
  const changes = Math.min(MAX_CHANGES, context.options.seconds);
  for (let number = first; number < first + changes; number++) {
    await delay(1000);
    latencies.push(await changeUnderLoad(context, mesh, mesh.world.change('route', number)));
  }
  return latencies;
}

export const webhooks: Bench = {
  name: 'webhooks',
  about: `a route changed each second, without and with ${REQUESTS_PER_SECOND} reviews a second`,
  run: (context) =>
    withMesh(context, { webhooks: true }, async (mesh) => {
      const { https } = mesh.server.ports;
      if (https === undefined) throw new Error('the server has no port for webhooks');
      await joinProxies(context, mesh);
      await routes(context, mesh, 0);
      context.progress('without reviews');
      const before = await routes(context, mesh, MAX_CHANGES);
      context.progress(`${REQUESTS_PER_SECOND} reviews a second`);
      const load = new Load(https);
      const running = load.run();
      const during = await routes(context, mesh, 2 * MAX_CHANGES);
      const latencies = await load.end(running);
      const row = (what: string, values: readonly number[][], note?: string): Row => ({
        bench: 'webhooks',
        what,
        size: mesh.size,
        ...latencyOf(values),
        ...(note === undefined ? {} : { note }),
      });
      const note = `${latencies.length} reviews, ${REQUESTS_PER_SECOND} a second`;
      return {
        rows: [row('route, no reviews', before), row('route, reviews', during), row('a review', [latencies], note)],
      };
    }),
};
