/**
 * A model proxy for the property test of the protocol machines: what it asked for, what it has, what it may be sent,
 * and the two directions of the wire between it and the server's machine. What is particular to a protocol stands in
 * `model-protocols.ts`.
 */

import assert from 'node:assert/strict';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { AdsMachine } from '../protocol/machine.ts';
import { type NameSet, NO_NAMES } from '../protocol/name-set.ts';
import type { AnyRequest } from '../protocol/requests.ts';
import { encodeResponse } from '../server/encode-response.ts';
import { Content, type ParsedResponse } from './content.ts';

/** In which order a model proxy looks at the types. */
export const MODEL_TYPES: readonly XdsType[] = ['cds', 'eds', 'sds', 'lds', 'rds', 'vhds'];

/** Virtual hosts, of some of the route configurations. */
const HOSTS: Readonly<Record<string, string>> = {
  a: 'a/1',
  b: 'a/2',
  c: 'b/1',
  d: 'b/2',
  e: 'c/1',
  'in-1': 'in-1/1',
  'in-2': 'in-1/2',
};

const NOUN: Readonly<Record<XdsType, string>> = {
  cds: 'cluster',
  eds: 'endpoint',
  sds: 'secret',
  lds: 'listener',
  rds: 'route',
  vhds: 'virtual host',
};

/** What a proxy knows of one type. */
export interface TypeModel {
  connected: boolean;
  wildcard: boolean;
  names: Set<string>;
  /** Name → text. */
  has: Map<string, string>;
  /** Names that may be sent although the proxy has them, and how often: requests cross responses on the wire. */
  forced: Allowances;
  /** An answer without news is in order. */
  answerDue: boolean;
  nonce: string;
  version: string;
  /**
   * SotW: names were dropped since the server made the last response, so that its version is about more than the proxy
   * has.
   */
  narrowed: boolean;
  /** SotW: names in the last request that the server heeded, and those that the last response was made for. */
  heard: NameSet;
  answered: NameSet;
  /** SotW: part of a rejected full set was taken, so that the version is not about what the proxy has. */
  torn: boolean;
  /**
   * SotW: one of several resources was rejected, of which the server cannot know whether the proxy has it, so that no
   * version says what it has.
   */
  doubted: boolean;
  /** SotW: droppings of names that are yet to be answered; each may be by a response without news. */
  drops: number;
  outstanding: number;
  /** The first request of the stream is still on the wire. */
  greeting: boolean;
}

function freshModel(): TypeModel {
  return {
    connected: false,
    wildcard: false,
    names: new Set(),
    has: new Map(),
    forced: new Allowances(),
    answerDue: false,
    nonce: '',
    version: '',
    narrowed: false,
    heard: NO_NAMES,
    answered: NO_NAMES,
    torn: false,
    doubted: false,
    drops: 0,
    outstanding: 0,
    greeting: false,
  };
}

class Allowances {
  readonly #counts = new Map<string, number>();
  add(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }
  has(name: string): boolean {
    return (this.#counts.get(name) ?? 0) > 0;
  }
  delete(name: string): void {
    this.#counts.set(name, Math.max(0, (this.#counts.get(name) ?? 0) - 1));
  }
}

type Wire = { readonly type: XdsType; readonly bytes: Buffer; readonly answers: boolean };

/** A proxy, the server's machine, and the two directions of the wire between them. */
export abstract class Simulation<Request extends AnyRequest> {
  readonly content: Content;
  readonly models = new Map<XdsType, TypeModel>(MODEL_TYPES.map((type) => [type, freshModel()]));
  machine: AdsMachine<Request>;
  up: Wire[] = [];
  down: Wire[] = [];
  /** Virtual hosts in force, by route configuration: those that came while the proxy had it. */
  readonly live = new Map<string, Map<string, string>>();
  /**
   * Virtual hosts of a rejected response that the proxy followed all the same, and of which it shows what it had
   * before.
   */
  readonly #tornHosts = new Set<string>();
  /**
   * Route configurations that came while the proxy's asking for them anew was still on the wire: the server took them
   * for those that the proxy had, and did not take their virtual hosts from it, which follow.
   */
  readonly #crossed = new Set<string>();

  /** @param content what the server has; proxies may have it in common */
  constructor(content = new Content()) {
    this.content = content;
    this.machine = this.newMachine();
  }

  /** Whether route configurations leave their virtual hosts to discovery. */
  abstract readonly discovers: boolean;
  abstract newMachine(): AdsMachine<Request>;
  abstract decode(bytes: Buffer): Request;
  abstract parse(bytes: Buffer): ParsedResponse;
  abstract first(type: XdsType, model: TypeModel): Buffer;
  abstract changeNames(type: XdsType, model: TypeModel, add: string[], drop: string[]): void;
  abstract accept(type: XdsType, model: TypeModel, response: ParsedResponse): string[];
  abstract answer(type: XdsType, model: TypeModel, response: ParsedResponse, error: string | undefined): Buffer;

  model(type: XdsType): TypeModel {
    const model = this.models.get(type);
    assert.ok(model);
    return model;
  }

  push(): number {
    const { messages } = this.machine.push(this.content.parts, this.content.version);
    for (const { type, message } of messages) {
      const model = this.model(type);
      model.outstanding++;
      model.answered = model.heard;
      const bytes = Buffer.concat(encodeResponse(message)).subarray(5);
      // Virtual hosts that are only taken away, so as to come again, wait for no answer.
      assert.ok(model.outstanding === 1 || type === 'vhds', `two responses of ${type} outstanding`);
      this.down.push({ type, bytes, answers: false });
    }
    return messages.length;
  }

  deliverUp(): void {
    const wire = this.up.shift();
    if (wire === undefined) return;
    if (wire.answers) this.model(wire.type).outstanding--;
    this.model(wire.type).greeting = false;
    const request = this.decode(wire.bytes);
    const answer = this.machine.receive(wire.type, request, this.content.parts, 0);
    if (answer.kind !== 'stale') this.heeded(this.model(wire.type), request);
  }

  deliverDown(): void {
    const wire = this.down.shift();
    if (wire === undefined) return;
    const model = this.model(wire.type);
    const response = this.parse(wire.bytes);
    assert.equal(response.typeUrl, XDS[wire.type].url);
    // An Envoy leaves what it has not asked for unanswered.
    if (!model.connected) {
      model.outstanding--;
      return;
    }
    model.nonce = response.nonce;
    const bad = this.accept(wire.type, model, response);
    // A cluster that changed asks the proxy to wait for endpoints: they may come again.
    if (wire.type === 'cds')
      for (const { name } of response.resources) this.model('eds').forced.add(resourceName('eds', name));
    if (wire.type === 'rds' && this.discovers) this.#takeRoutes(response, bad);
    if (wire.type === 'vhds') this.#takeHosts(response, bad);
    const error =
      bad.length === 0
        ? undefined
        : XDS[wire.type].fullSet
          ? `Error adding/updating ${NOUN[wire.type]}(s) ${bad.map((name) => `${name}: no good`).join(wire.type === 'cds' ? ', ' : '\n')}`
          : 'Proto constraint validation failed';
    if (error !== undefined) {
      // The server cannot know which of it the proxy followed.
      for (const { name } of response.resources) model.forced.add(name);
      for (const name of response.removed) model.forced.add(name);
      model.answerDue = true;
    }
    this.up.push({ type: wire.type, bytes: this.answer(wire.type, model, response, error), answers: true });
  }

  /** Each new configuration begins without virtual hosts; the first of all makes the proxy ask for them. */
  #takeRoutes(response: ParsedResponse, bad: readonly string[]): void {
    const hosts = this.model('vhds');
    if (response.resources.length > 0) for (const name of Object.values(HOSTS)) hosts.forced.add(name);
    if (bad.length > 0) return;
    const asks = this.up.some(({ type, answers }) => type === 'rds' && !answers);
    for (const { name } of response.resources) {
      if (!this.model('rds').names.has(name)) continue;
      this.#crossed.delete(name);
      if (asks && !this.live.has(name) && [...hosts.has.keys()].some((host) => routesOf(host) === name))
        this.#crossed.add(name);
      if (!this.live.has(name)) this.live.set(name, new Map());
      this.connect('vhds', true, []);
    }
  }

  /** Rejected or not as each configuration stands it. */
  #takeHosts(response: ParsedResponse, bad: readonly string[]): void {
    const spoilt = new Set(bad.map(routesOf));
    for (const name of [...response.resources.map((each) => each.name), ...response.removed]) {
      this.#crossed.delete(routesOf(name));
      if (bad.length === 0) this.#tornHosts.delete(name);
      else if (!spoilt.has(routesOf(name)) && this.live.has(routesOf(name))) this.#tornHosts.add(name);
    }
    for (const { name, text } of response.resources)
      if (!spoilt.has(routesOf(name))) this.live.get(routesOf(name))?.set(name, text);
    for (const name of response.removed) if (!spoilt.has(routesOf(name))) this.live.get(routesOf(name))?.delete(name);
  }

  dropRoutes(names: readonly string[]): void {
    for (const name of names) {
      this.live.delete(name);
      this.#crossed.delete(name);
    }
  }

  connect(type: XdsType, wildcard: boolean, names: string[]): void {
    const model = this.model(type);
    if (model.connected || (!wildcard && names.length === 0)) return;
    Object.assign(model, { connected: true, wildcard, answerDue: true });
    model.names = new Set(names);
    for (const name of names) model.forced.add(name);
    this.up.push({ type, bytes: this.first(type, model), answers: false });
  }

  reconnect(): void {
    // Such a proxy shows the version of the set before: when that set is current again, no server can tell.
    if ([...this.models.values()].some(({ torn }) => torn) || this.#tornHosts.size + this.#crossed.size > 0) return;
    this.up = [];
    this.down = [];
    this.machine = this.newMachine();
    for (const [type, model] of this.models) {
      model.outstanding = 0;
      model.nonce = '';
      if (!model.connected) continue;
      if (!model.wildcard && model.names.size === 0) {
        model.connected = false;
        model.has.clear();
        if (type === 'rds') this.live.clear();
        // Shown again only together with a cluster that is new to the stream, which is answered in any case.
        model.version = '';
        continue;
      }
      this.resume(type, model);
      model.greeting = true;
      this.up.push({ type, bytes: this.first(type, model), answers: false });
    }
  }

  settle(): void {
    for (let round = 0; round < 2000; round++) {
      while (this.up.length > 0) this.deliverUp();
      this.machine.stopAwaiting();
      const sent = this.push();
      if (sent === 0 && this.down.length === 0) return;
      while (this.down.length > 0) this.deliverDown();
    }
    assert.fail('never settles');
  }

  /** The proxy's view of a type against the engine's. */
  check(type: XdsType): void {
    const model = this.model(type);
    if (!model.connected) return;
    const want = this.content.texts(type);
    for (const [name, text] of want) {
      if (!model.wildcard && !model.names.has(name)) continue;
      if (text.startsWith('bad')) assert.ok(!model.has.get(name)?.startsWith('bad'), `${type} ${name}: a bad resource`);
      else assert.equal(model.has.get(name), text, `${type} ${name}`);
    }
    // Clusters and endpoints stay while a rejected listener or route may live on in a version that points to them.
    const status = this.machine.status(this.content.parts);
    const stuck = (['lds', 'rds', 'vhds'] as const).some((one) => (status.get(one)?.quarantined.size ?? 0) > 0);
    if (this.removes(type) && !(stuck && type !== 'lds' && type !== 'vhds'))
      for (const name of model.has.keys())
        assert.ok(want.has(name) || this.#drains(type, name), `${type} ${name} is gone but the proxy has it`);
  }

  /** A virtual host of a configuration that is gone, and that the proxy still asks for. */
  #drains(type: XdsType, name: string): boolean {
    return (
      type === 'vhds' && this.model('rds').names.has(routesOf(name)) && !this.content.texts('rds').has(routesOf(name))
    );
  }

  /** What is in force against what the engine holds, for configurations that both have. */
  checkHosts(): void {
    const want = this.content.texts('vhds');
    for (const [routes, hosts] of this.live) {
      if (!this.content.texts('rds').has(routes)) continue;
      for (const [name, text] of want) {
        if (routesOf(name) !== routes) continue;
        if (text.startsWith('bad')) assert.ok(!hosts.get(name)?.startsWith('bad'), `${name}: a bad virtual host`);
        else assert.equal(hosts.get(name), text, `${name} in force`);
      }
      for (const name of hosts.keys()) assert.ok(want.has(name), `${name} is gone but in force`);
    }
  }

  /** The server took the request for what it says. */
  abstract heeded(model: TypeModel, request: Request): void;
  abstract removes(type: XdsType): boolean;
  /** What the proxy must be ready for on its new stream. */
  abstract resume(type: XdsType, model: TypeModel): void;

  /** A second round: nothing moved, so nothing may be sent. */
  checkQuiet(): void {
    assert.equal(this.push(), 0);
    assert.ok(this.machine.complete(this.content.parts));
  }
}

/** The route configuration that a virtual host is of. */
function routesOf(host: string): string {
  return host.slice(0, host.lastIndexOf('/'));
}

/** EDS resources are called after the cluster that refers to them. */
export function resourceName(of: XdsType, name: string): string {
  if (of === 'vhds') return HOSTS[name] ?? name;
  return of === 'eds' && !name.startsWith('in') ? `eds-${name}` : name;
}
