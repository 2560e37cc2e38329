/**
 * A model proxy for the property test of the protocol machines: what it subscribes to, what it has, what it may be
 * sent, and the two directions of the wire between it and the server's machine. What is particular to a variant is in
 * `model-protocols.ts`.
 */

import assert from 'node:assert/strict';
import { XDS, XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import type { AdsMachine } from '../protocol/machine.ts';
import { type NameSet, NO_NAMES } from '../protocol/name-set.ts';
import type { AnyRequest } from '../protocol/requests.ts';
import { encodeResponse } from '../server/encode-response.ts';
import { Content, type ParsedResponse } from './content.ts';

/** The order in which a model proxy walks over the types. */
export const MODEL_TYPES = XDS_TYPES;

/** Virtual hosts of some of the route configurations. */
const HOSTS: Readonly<Record<string, string>> = {
  a: 'a/1',
  b: 'a/2',
  c: 'b/1',
  d: 'b/2',
  e: 'c/1',
  'in-1': 'in-1/1',
  'in-2': 'in-1/2',
};

/** Envoy's error message for these rejected resources. */
function nackMessage(type: XdsType, names: readonly string[]): string {
  if (!XDS[type].fullSet) return 'Proto constraint validation failed';
  const entries = names.map((name) => `${name}: no good`).join(type === 'cds' ? ', ' : '\n');
  return `Error adding/updating ${XDS[type].noun}(s) ${entries}`;
}

/** The state of one type in the proxy. */
export interface TypeModel {
  connected: boolean;
  wildcard: boolean;
  names: Set<string>;
  /** Name → text. */
  has: Map<string, string>;
  /** Names that may be sent although the proxy has them, and how often: requests cross responses on the wire. */
  forced: Allowances;
  /** A response without anything new is allowed. */
  answerDue: boolean;
  nonce: string;
  version: string;
  /**
   * SotW: names were dropped since the server made the last response, so that its version is of more than the proxy
   * has.
   */
  narrowed: boolean;
  /** SotW: names in the last request that the server accepted, and those that the last response was made for. */
  acceptedNames: NameSet;
  respondedNames: NameSet;
  /** SotW: the proxy applied a part of a rejected full set, so that the version is not of what it has. */
  partlyApplied: boolean;
  /**
   * SotW: the proxy rejected one of several resources, and the server cannot know which of them it has, so that no
   * version expresses it.
   */
  uncertain: boolean;
  /**
   * SotW: requests that dropped names and are not respondedNames yet; each may be respondedNames by a response without
   * news.
   */
  drops: number;
  outstanding: number;
  /** The first request of the stream is still on the wire. */
  firstRequestOnWire: boolean;
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
    acceptedNames: NO_NAMES,
    respondedNames: NO_NAMES,
    partlyApplied: false,
    uncertain: false,
    drops: 0,
    outstanding: 0,
    firstRequestOnWire: false,
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

export type Wire = { readonly type: XdsType; readonly bytes: Buffer; readonly answers: boolean };

/** A proxy, the server's machine, and the two directions of the wire between them. */
export abstract class Simulation<Request extends AnyRequest> {
  readonly content: Content;
  readonly models = new Map<XdsType, TypeModel>(MODEL_TYPES.map((type) => [type, freshModel()]));
  machine: AdsMachine<Request>;
  up: Wire[] = [];
  down: Wire[] = [];
  /** Virtual hosts in force, by route configuration: those that were sent while the proxy had it. */
  readonly live = new Map<string, Map<string, string>>();
  /**
   * Virtual hosts of a rejected response that the proxy applied nevertheless, and of which it reports the versions
   * before.
   */
  readonly #partlyAppliedHosts = new Set<string>();
  /**
   * Route configurations that were sent while the proxy's new subscription to them was still on the wire: the server
   * assumed that the proxy had them, and did not remove their virtual hosts before them.
   */
  readonly #crossed = new Set<string>();

  /** @param content what the server has; proxies may share it */
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
      model.respondedNames = model.acceptedNames;
      const bytes = Buffer.concat(encodeResponse(message)).subarray(5);
      assert.ok(model.outstanding === 1 || this.mayOverlap(type), `two responses of ${type} outstanding`);
      this.down.push({ type, bytes, answers: false });
    }
    return messages.length;
  }

  deliverUp(): void {
    const wire = this.up.shift();
    if (wire === undefined) return;
    if (wire.answers) this.model(wire.type).outstanding--;
    this.model(wire.type).firstRequestOnWire = false;
    const request = this.decode(wire.bytes);
    const answer = this.machine.receive(wire.type, request, this.content.parts, 0);
    if (answer.kind !== 'stale') this.accepted(this.model(wire.type), request);
  }

  deliverDown(): void {
    const wire = this.down.shift();
    if (wire === undefined) return;
    const model = this.model(wire.type);
    const response = this.parse(wire.bytes);
    assert.equal(response.typeUrl, XDS[wire.type].url);
    // Envoy does not answer resources that it has not subscribed to.
    if (!model.connected) {
      model.outstanding--;
      return;
    }
    model.nonce = response.nonce;
    const bad = this.accept(wire.type, model, response);
    // The proxy waits for the endpoints of a changed cluster: they may be sent again.
    if (wire.type === 'cds')
      for (const { name } of response.resources) this.model('eds').forced.add(resourceName('eds', name));
    if (wire.type === 'rds' && this.discovers) this.#takeRoutes(response, bad);
    if (wire.type === 'vhds') this.#takeHosts(response, bad);
    const error = bad.length === 0 ? undefined : nackMessage(wire.type, bad);
    if (error !== undefined) {
      // The server cannot know which resources the proxy applied.
      for (const { name } of response.resources) model.forced.add(name);
      for (const name of response.removed) model.forced.add(name);
      model.answerDue = true;
    }
    this.send({ type: wire.type, bytes: this.answer(wire.type, model, response, error), answers: true });
  }

  /** Each new configuration begins without virtual hosts; the first one makes the proxy subscribe to them. */
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

  /** Each configuration accepts or rejects its own virtual hosts. */
  #takeHosts(response: ParsedResponse, bad: readonly string[]): void {
    const spoilt = new Set(bad.map(routesOf));
    for (const name of [...response.resources.map((each) => each.name), ...response.removed]) {
      this.#crossed.delete(routesOf(name));
      if (bad.length === 0) this.#partlyAppliedHosts.delete(name);
      else if (!spoilt.has(routesOf(name)) && this.live.has(routesOf(name))) this.#partlyAppliedHosts.add(name);
    }
    for (const { name, text } of response.resources)
      if (!spoilt.has(routesOf(name))) this.live.get(routesOf(name))?.set(name, text);
    for (const name of response.removed) if (!spoilt.has(routesOf(name))) this.live.get(routesOf(name))?.delete(name);
  }

  protected send(wire: Wire): void {
    this.up.push(wire);
  }

  protected sendFirst(type: XdsType, model: TypeModel): void {
    this.send({ type, bytes: this.first(type, model), answers: false });
  }

  /** Whether a response may be sent before an earlier one is answered: one that only removes virtual hosts may. */
  protected mayOverlap(type: XdsType): boolean {
    return type === 'vhds';
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
    this.sendFirst(type, model);
  }

  reconnect(): void {
    // Such a proxy reports the version of the set before: when that set is current again, no server can tell.
    if (
      [...this.models.values()].some(({ partlyApplied }) => partlyApplied) ||
      this.#partlyAppliedHosts.size + this.#crossed.size > 0
    )
      return;
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
        // Reported only together with a cluster that is new to the stream, which is respondedNames in any case.
        model.version = '';
        continue;
      }
      this.resume(type, model);
      model.firstRequestOnWire = true;
      this.sendFirst(type, model);
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

  /** Compares the proxy's resources of a type with the engine's. */
  check(type: XdsType): void {
    const model = this.model(type);
    if (!model.connected) return;
    const want = this.content.texts(type);
    for (const [name, text] of want) {
      if (!model.wildcard && !model.names.has(name)) continue;
      if (text.startsWith('bad')) assert.ok(!model.has.get(name)?.startsWith('bad'), `${type} ${name}: a bad resource`);
      else assert.equal(model.has.get(name), text, `${type} ${name}`);
    }
    // Clusters and endpoints stay while the proxy may use an older version of a rejected listener or route.
    const status = this.machine.status(this.content.parts);
    const stuck = (['lds', 'rds', 'vhds'] as const).some((one) => (status.get(one)?.quarantined.size ?? 0) > 0);
    if (this.removes(type) && !(stuck && type !== 'lds' && type !== 'vhds'))
      for (const name of model.has.keys())
        assert.ok(want.has(name) || this.#drains(type, name), `${type} ${name} is gone but the proxy has it`);
  }

  /** A virtual host of a configuration that no longer exists and that the proxy still subscribes to. */
  #drains(type: XdsType, name: string): boolean {
    return (
      type === 'vhds' && this.model('rds').names.has(routesOf(name)) && !this.content.texts('rds').has(routesOf(name))
    );
  }

  /** Compares the hosts in force with the engine's, for configurations that both have. */
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

  /** The server accepted the request. */
  abstract accepted(model: TypeModel, request: Request): void;
  abstract removes(type: XdsType): boolean;
  /** Prepares the expectations of the proxy on its new stream. */
  abstract resume(type: XdsType, model: TypeModel): void;

  /** Nothing changed, so nothing may be sent. */
  checkQuiet(): void {
    assert.equal(this.push(), 0);
    assert.ok(this.machine.complete(this.content.parts));
  }
}

/** The route configuration of a virtual host. */
function routesOf(host: string): string {
  return host.slice(0, host.lastIndexOf('/'));
}

/** EDS resources are named after the cluster that refers to them. */
export function resourceName(of: XdsType, name: string): string {
  if (of === 'vhds') return HOSTS[name] ?? name;
  return of === 'eds' && !name.startsWith('in') ? `eds-${name}` : name;
}
