/** The model proxy of `model.ts` in the Delta and the state of the world variant. */

import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { XDS, type XdsType } from '../../core/xds-types.ts';
import type { AdsMachine } from '../protocol/machine.ts';
import type { DeltaRequest, SotwRequest } from '../protocol/requests.ts';
import {
  type DeltaFields,
  encodeDeltaRequest,
  encodeSotwRequest,
  type ParsedResponse,
  parseDelta,
  parseSotw,
} from './content.ts';
import { Simulation, type TypeModel } from './model.ts';
import { DELTA, DELTA_REQUESTS, DELTA_UNSHARED, SOTW, SOTW_REQUESTS, SOTW_UNSHARED } from './protocols.ts';
import { TwinMachine } from './twin.ts';

export class DeltaSimulation extends Simulation<DeltaRequest> {
  readonly discovers = true;
  newMachine(): AdsMachine<DeltaRequest> {
    return new TwinMachine(DELTA, DELTA_UNSHARED);
  }
  decode(bytes: Buffer): DeltaRequest {
    return DELTA_REQUESTS.decode(bytes);
  }
  parse(bytes: Buffer): ParsedResponse {
    return parseDelta(bytes);
  }
  first(type: XdsType, model: TypeModel): Buffer {
    const legacy = model.wildcard && XDS[type].wildcard && model.names.size === 0;
    return encodeDeltaRequest({
      typeUrl: XDS[type].url,
      subscribe: legacy ? [] : [...(model.wildcard ? ['*'] : []), ...model.names],
      initial: new Map([...model.has].map(([name, text]) => [name, `v:${text}`])),
    });
  }
  changeNames(type: XdsType, model: TypeModel, add: string[], drop: string[]): void {
    // Names that were dropped and added again.
    const again = model.wildcard ? [] : add;
    if (type === 'rds') this.dropRoutes([...drop, ...again]);
    for (const name of again) model.has.delete(name);
    for (const name of drop) {
      model.names.delete(name);
      if (model.wildcard) model.forced.add(name);
      else model.has.delete(name);
    }
    for (const name of add) {
      model.names.add(name);
      model.forced.add(name);
    }
    const fields: DeltaFields = { typeUrl: XDS[type].url, subscribe: add, unsubscribe: drop };
    this.send({ type, bytes: encodeDeltaRequest(fields), answers: false });
  }
  accept(type: XdsType, model: TypeModel, response: ParsedResponse): string[] {
    const news = response.resources.length + response.removed.length;
    assert.ok(news > 0 || model.answerDue, `${type}: an empty response`);
    // Virtual hosts may be removed only to be sent again, whatever else is expected.
    if (type !== 'vhds' || response.resources.length > 0) model.answerDue = false;
    const bad = response.resources.filter(({ text }) => text.startsWith('bad')).map(({ name }) => name);
    for (const { name, text, version } of response.resources) {
      assert.equal(version, `v:${text}`);
      if (!model.wildcard && !model.names.has(name)) continue;
      assert.ok(model.forced.has(name) || model.has.get(name) !== text, `${type} ${name} sent again`);
      if (bad.length > 0 && (!XDS[type].fullSet || bad.includes(name))) continue;
      if (model.has.get(name) === text) model.forced.delete(name);
      model.has.set(name, text);
    }
    if (bad.length === 0 || XDS[type].fullSet) for (const name of response.removed) model.has.delete(name);
    return bad;
  }
  answer(type: XdsType, _model: TypeModel, response: ParsedResponse, error: string | undefined): Buffer {
    return encodeDeltaRequest({
      typeUrl: XDS[type].url,
      nonce: response.nonce,
      ...(error === undefined ? {} : { error }),
    });
  }
  accepted(): void {}
  removes(): boolean {
    return true;
  }
  resume(_type: XdsType, model: TypeModel): void {
    // With nothing to report, a new stream looks like a first connection.
    model.answerDue = model.has.size === 0;
  }
}

export class SotwSimulation extends Simulation<SotwRequest> {
  readonly discovers = false;
  newMachine(): AdsMachine<SotwRequest> {
    return new TwinMachine(SOTW, SOTW_UNSHARED);
  }
  decode(bytes: Buffer): SotwRequest {
    return SOTW_REQUESTS.decode(bytes);
  }
  parse(bytes: Buffer): ParsedResponse {
    return parseSotw(bytes);
  }
  #names(type: XdsType, model: TypeModel): string[] {
    if (!model.wildcard) return [...model.names];
    return XDS[type].fullSet && model.names.size === 0 ? [] : ['*', ...model.names];
  }
  first(type: XdsType, model: TypeModel): Buffer {
    return encodeSotwRequest({
      typeUrl: XDS[type].url,
      names: this.#names(type, model),
      version: model.version,
    });
  }
  changeNames(type: XdsType, model: TypeModel, add: string[], drop: string[]): void {
    // A proxy with a wildcard and explicit names is left to the Delta model.
    if (model.wildcard) return;
    for (const name of drop) {
      model.names.delete(name);
      if (model.has.delete(name)) model.narrowed = true;
    }
    if (drop.length > 0) model.drops++;
    // Envoy subscribes to a name again only for a cluster that it was sent later, and so after its unsubscription was
    // respondedNames.
    for (const name of model.narrowed ? [] : add) {
      if (!model.names.has(name)) model.forced.add(name);
      model.names.add(name);
    }
    const bytes = encodeSotwRequest({
      typeUrl: XDS[type].url,
      names: this.#names(type, model),
      version: model.version,
      nonce: model.nonce,
    });
    this.send({ type, bytes, answers: false });
  }
  accept(type: XdsType, model: TypeModel, response: ParsedResponse): string[] {
    const full = XDS[type].fullSet;
    const wanted = response.resources.filter(({ name }) => model.wildcard || model.names.has(name));
    const bad = wanted.filter(({ text }) => text.startsWith('bad')).map(({ name }) => name);
    const news =
      wanted.length !== response.resources.length ||
      wanted.some(({ name, text }) => model.has.get(name) !== text || model.forced.has(name)) ||
      (full && wanted.length !== model.has.size);
    if (!news && !model.answerDue) assert.ok(model.drops-- > 0, `${type}: nothing new in the response`);
    model.answerDue = false;
    const before = new Map(model.has);
    if (full)
      for (const name of [...model.has.keys()]) if (!wanted.some((one) => one.name === name)) model.has.delete(name);
    for (const { name, text } of wanted) {
      if (!full) assert.ok(model.forced.has(name) || model.has.get(name) !== text, `${type} ${name} sent again`);
      if (bad.length > 0 && (!full || bad.includes(name))) continue;
      if (model.has.get(name) === text) model.forced.delete(name);
      model.has.set(name, text);
    }
    model.partlyApplied = bad.length > 0 && (model.partlyApplied || !isDeepStrictEqual(model.has, before));
    if (bad.length > 0) {
      model.uncertain ||= wanted.length > 1;
      return bad;
    }
    model.version = response.version;
    model.narrowed = [...model.respondedNames.names].some((name) => !model.names.has(name));
    return bad;
  }
  answer(type: XdsType, model: TypeModel, response: ParsedResponse, error: string | undefined): Buffer {
    return encodeSotwRequest({
      typeUrl: XDS[type].url,
      names: this.#names(type, model),
      version: model.version,
      nonce: response.nonce,
      ...(error === undefined ? {} : { error }),
    });
  }
  accepted(model: TypeModel, request: SotwRequest): void {
    model.acceptedNames = request.names;
  }
  removes(type: XdsType): boolean {
    return XDS[type].fullSet;
  }
  resume(type: XdsType, model: TypeModel): void {
    // The version is that of the whole set: an up-to-date proxy is sent nothing, any other all of it.
    const want = [...this.content.texts(type)].filter(([name]) => model.wildcard || model.names.has(name));
    const current =
      !model.narrowed && want.length === model.has.size && want.every(([name, text]) => model.has.get(name) === text);
    if (current && model.version !== '' && !model.uncertain) return;
    model.answerDue = true;
    for (const name of model.has.keys()) model.forced.add(name);
  }
}
