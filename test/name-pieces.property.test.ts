/**
 * The names of an agent whose control planes send pieces, or one table as older ones do: whatever changes and
 * reconnects follow each other, the agent has the names of the table, and a name that stays is never missing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MeshNames, readNames } from '../src/agent/dns/mesh-names.ts';
import { readResponse, writeRequest } from '../src/agent/xds-proxy/messages.ts';
import { type OwnStream, OwnTypes } from '../src/agent/xds-proxy/own-types.ts';
import * as fc from '../src/core/testing/properties.ts';
import { XDS } from '../src/core/xds-types.ts';
import { silentLog } from '../src/dns/testing/clients.ts';
import { generate } from '../src/generate/generate.ts';
import { meshOf, meshResource } from '../src/generate/testing/mesh.ts';
import { outboundView } from '../src/generate/testing/views.ts';
import { applyChanges } from '../src/model/testing/steps.ts';
import { emptyBundle, nextBundle } from '../src/push/bundles/bundle.ts';
import { contentVersion, encodeResource } from '../src/push/bundles/encode-resource.ts';
import { keyOf } from '../src/resources/kinds/types.ts';
import { AdsMachine } from '../src/xds/protocol/machine.ts';
import type { DeltaRequest } from '../src/xds/protocol/requests.ts';
import { encodeResponse } from '../src/xds/server/encode-response.ts';
import { Content } from '../src/xds/testing/content.ts';
import { DELTA, DELTA_REQUESTS } from '../src/xds/testing/protocols.ts';

type ServerKind = 'pieces' | 'one table';

const INITIAL = 40;

const nameOf = (index: number): string => `s${index}.shop.svc.cluster.local`;

function service(index: number, address: number) {
  return meshResource('Service', 'shop', `s${index}`, {
    clusterIP: `10.96.${index}.${address}`,
    ports: [{ name: 'http', port: 80 }],
  });
}

/** A control plane and an agent, whose stream has no delay. */
class World {
  readonly #names = new MeshNames(silentLog, () => 0);
  readonly #own = new OwnTypes(silentLog);
  #snapshot = meshOf(Array.from({ length: INITIAL }, (_, index) => service(index, 1)));
  #content = new Content();
  #machine: AdsMachine<DeltaRequest> | undefined;
  #stream: OwnStream | undefined;
  #kind: ServerKind = 'pieces';
  /** Encoded messages of the last responses. */
  sent: Uint8Array[] = [];
  readonly rejections: string[] = [];

  constructor() {
    this.#own.subscribe({
      typeUrl: XDS.nds.url,
      resourceNames: [],
      receive: (changes) => this.#names.receive(changes),
    });
  }

  #table(kind: ServerKind) {
    const view = outboundView(kind === 'pieces' ? { namePieces: true } : {});
    const { units } = generate(this.#snapshot, view, { nds: 'all' });
    return [...(units.nds?.values() ?? [])].flat();
  }

  /** @param addresses the last number of a service's address; undefined: no such service */
  edit(addresses: ReadonlyMap<number, number | undefined>): void {
    const changes = [...addresses].map(([index, address]) => ({
      key: keyOf(service(index, 1)),
      before: undefined,
      after: address === undefined ? undefined : service(index, address),
    }));
    this.#snapshot = applyChanges(this.#snapshot, { changes }).snapshot;
  }

  connect(kind: ServerKind): void {
    this.#stream?.detach();
    this.#kind = kind;
    this.#content = new Content();
    this.#setContent();
    const machine = new AdsMachine<DeltaRequest>(DELTA);
    this.#machine = machine;
    this.#stream = this.#own.attach('delta', (request) => {
      if (request.error !== undefined) this.rejections.push(request.error);
      const bytes = writeRequest('delta', request);
      machine.receive('nds', DELTA_REQUESTS.decode(bytes), this.#content.parts, 0);
    });
  }

  #setContent(): void {
    const table = this.#table(this.#kind);
    const [before = emptyBundle('nds', 'outbound'), ...others] = this.#content.parts.nds;
    const changes = new Map(before.resources().map(({ name }) => [name, undefined] as const));
    const set = table.map(({ name, bytes }) => {
      return [name, encodeResource('nds', name, contentVersion(bytes), bytes, [])] as const;
    });
    this.#content.parts = {
      ...this.#content.parts,
      nds: [nextBundle(before, new Map([...changes, ...set])), ...others],
    };
    this.#content.version++;
  }

  async push(): Promise<void> {
    this.#setContent();
    this.sent = [];
    for (const { message } of this.#machine?.push(this.#content.parts, this.#content.version).messages ?? []) {
      const bytes = Buffer.concat(encodeResponse(message)).subarray(5);
      const response = readResponse('delta', bytes);
      this.sent.push(...response.resources.map((resource) => resource.bytes));
      this.#stream?.receive(response);
    }
    await this.#names.settled();
  }

  /** The addresses of the services in the names of the agent. */
  known(): ReadonlyMap<string, string> {
    const { table } = this.#names;
    const found = new Map<string, string>();
    for (let index = 0; index < 2 * INITIAL; index++) {
      const id = table.find(nameOf(index));
      if (id !== undefined) found.set(nameOf(index), table.addresses(id, 4).join('.'));
    }
    assert.equal(found.size, table.size);
    return found;
  }

  /** The same in the table of the control plane. */
  expected(): ReadonlyMap<string, string> {
    const [table, ...others] = this.#table('one table');
    assert.ok(table !== undefined && others.length === 0);
    return new Map([...readNames(table.bytes)].map(([name, { ips }]) => [name, ips.join()]));
  }
}

const index = fc.nat(2 * INITIAL - 1);
const edits = fc.array(fc.tuple(index, fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined })), {
  minLength: 1,
  maxLength: 5,
});
const actions = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ edits, push: fc.boolean() }) },
    fc.record({ kind: fc.constantFrom<ServerKind>('pieces', 'one table') }),
  ),
  { maxLength: 12 },
);

test('an agent has the names of the table after any changes and reconnects', async () => {
  const sorted = (names: ReadonlyMap<string, string>) => [...names].sort();
  await fc.assert(
    fc.asyncProperty(actions, async (steps) => {
      const world = new World();
      world.connect('pieces');
      await world.push();
      for (const step of steps) {
        if ('kind' in step) world.connect(step.kind);
        else world.edit(new Map(step.edits));
        if ('push' in step && !step.push) continue;
        await world.push();
        assert.deepEqual(sorted(world.known()), sorted(world.expected()));
      }
      assert.deepEqual(world.rejections, []);
    }),
    { numRuns: 25 },
  );
});

test('a reconnect to a control plane of the same kind costs no names, and a change only its piece', async () => {
  const world = new World();
  for (const kind of ['pieces', 'one table'] as const) {
    world.connect(kind);
    await world.push();
    world.connect(kind);
    await world.push();
    assert.equal(world.sent.length, 0);
    world.edit(new Map([[7, kind === 'pieces' ? 2 : 3]]));
    await world.push();
    assert.equal(world.sent.length, 1);
    const [bytes] = world.sent;
    assert.ok(bytes !== undefined && bytes.length < 2000 === (kind === 'pieces'));
    assert.deepEqual(world.known(), new Map(world.expected()));
  }
  world.edit(new Map(Array.from({ length: INITIAL }, (_, index) => [index, undefined])));
  for (const kind of ['pieces', 'one table'] as const) {
    world.connect(kind);
    await world.push();
    assert.equal(world.known().size, 0);
  }
  assert.deepEqual(world.rejections, []);
});
