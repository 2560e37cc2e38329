/** Simulated Envoys on one engine, each with a real stream of the server, and a clock that the test turns. */
import assert from 'node:assert/strict';
import type { ProxyNode } from '../../src/core/proxy.ts';
import { inline, Mesh } from '../../src/push/testing/mesh.ts';
import type { WithheldOfView } from '../../src/push/types.ts';
import type { AnyResource } from '../../src/resources/kinds/types.ts';
import type { AnyRequest } from '../../src/xds/protocol/requests.ts';
import type { Variant } from '../../src/xds/protocol/variant.ts';
import { KnownExtensions } from '../../src/xds/request/known-extensions.ts';
import { ResponseFrames } from '../../src/xds/server/compression/stream-frames.ts';
import { Admission } from '../../src/xds/server/limits/admission.ts';
import { CallerLimits } from '../../src/xds/server/limits/caller-limits.ts';
import { AdsStream } from '../../src/xds/server/stream.ts';
import type { Transport } from '../../src/xds/server/transport.ts';
import { quietObserver } from '../../src/xds/testing/engine.ts';
import { DELTA, DELTA_REQUESTS, SOTW, SOTW_REQUESTS } from '../../src/xds/testing/protocols.ts';
import { QUIET_TRANSPORT } from '../../src/xds/testing/transport.ts';
import { type Behaviour, SimEnvoy } from './sim-envoy.ts';

export interface Member {
  readonly address: string;
  readonly behaviour?: Behaviour;
  readonly mode?: 'sotw' | 'delta';
  /** Default: the same for all. */
  readonly caller?: string;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

export class Fleet {
  readonly mesh: Mesh;
  readonly envoys: SimEnvoy[] = [];
  readonly #namespace: string;
  readonly #frames = new ResponseFrames().plain;
  readonly #limits = new CallerLimits();
  readonly #admission = new Admission();
  readonly #extensions = new KnownExtensions(true);
  /** Requests that have not reached the server. */
  #waiting: (() => void)[] = [];
  readonly #streams = new Map<SimEnvoy, { close(): void }>();

  /** @param random chooses canaries */
  constructor(resources: readonly AnyResource[], namespace: string, canaryAbove: number, random = () => 0) {
    this.#namespace = namespace;
    this.mesh = new Mesh(inline, resources, { canaryAbove, random });
  }

  connect({ address, behaviour = 'honest', mode = 'delta', caller = 'spiffe://all' }: Member): SimEnvoy {
    return mode === 'delta'
      ? this.#open({ address, behaviour, mode, caller }, DELTA, (bytes) => DELTA_REQUESTS.decode(bytes))
      : this.#open({ address, behaviour, mode, caller }, SOTW, (bytes) => SOTW_REQUESTS.decode(bytes));
  }

  #open<R extends AnyRequest>(
    { address, behaviour, mode, caller }: Required<Member>,
    protocol: Variant<R>,
    decode: (bytes: Buffer) => R,
  ): SimEnvoy {
    const id = `sidecar~${address}~pod-${address}.${this.#namespace}~${this.#namespace}.svc.cluster.local`;
    const node = { id } as ProxyNode;
    const envoy: SimEnvoy = new SimEnvoy({
      node,
      mode,
      behaviour,
      send: (bytes) => this.#waiting.push(() => stream.receive(decode(bytes))),
      leave: () => this.#waiting.push(() => this.disconnect(envoy)),
    });
    const transport: Transport = {
      ...QUIET_TRANSPORT,
      peer: address,
      send: (chunks, done) => {
        envoy.received(Buffer.concat(chunks));
        done('drained');
      },
      fail: (error) => assert.fail(error),
    };
    const stream: AdsStream<R> = new AdsStream<R>({
      transport,
      protocol,
      frames: this.#frames,
      limits: this.#limits,
      engine: this.mesh.engine,
      admission: this.#admission.of(address, caller),
      extensions: this.#extensions,
      caller: undefined,
      callerKey: caller,
      observer: { ...quietObserver, internalError: (error) => assert.fail(String(error)) },
      clock: { wall: () => 0, monotonic: () => performance.now() },
      closed: () => {},
    });
    this.envoys.push(envoy);
    this.#streams.set(envoy, stream);
    envoy.start();
    return envoy;
  }

  /** What is withheld from proxies. */
  get withheld(): readonly WithheldOfView[] {
    return this.mesh.engine.withheld();
  }

  disconnect(envoy: SimEnvoy): void {
    this.#streams.get(envoy)?.close();
    this.#streams.delete(envoy);
    this.envoys.splice(this.envoys.indexOf(envoy), 1);
  }

  /** Lets everything happen that can happen without time passing. */
  async rest(): Promise<void> {
    for (let idle = 0, turns = 0; idle < 12; turns++) {
      assert.ok(turns < 5000, 'the fleet does not come to rest');
      await turn();
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const run of waiting) run();
      const { queued, underWay } = this.mesh.engine.stats();
      const busy = [...this.mesh.engine.views()].some((view) => view.inFlight);
      idle = waiting.length === 0 && queued === 0 && underWay === 0 && !busy ? idle + 1 : 0;
    }
  }

  /** Connects these, and waits until each has its first configuration. */
  async start(members: readonly Member[]): Promise<void> {
    for (const member of members) this.connect(member);
    await this.rest();
    for (const envoy of this.envoys) {
      assert.ok(envoy.has.cds.size > 0 && envoy.has.lds.size > 0);
      envoy.started = true;
    }
  }

  /** The bound of running trials has passed. */
  async bound(): Promise<void> {
    this.mesh.ahead += 300;
    this.mesh.retry();
    await this.rest();
  }

  close(): void {
    for (const stream of this.#streams.values()) stream.close();
  }
}
