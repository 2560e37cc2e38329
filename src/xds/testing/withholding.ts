/**
 * The Delta model proxy as an Envoy whose clusters warm: it withholds all requests for clusters, also over reconnects,
 * and uses what it is sent nevertheless. The server presumes after a while that it has the clusters that it was sent
 * (src/xds/server/patience.ts).
 */
import assert from 'node:assert/strict';
import type { XdsType } from '../../core/xds-types.ts';
import { encodeDeltaRequest } from './content.ts';
import type { TypeModel, Wire } from './model.ts';
import { DeltaSimulation } from './model-protocols.ts';

export class WithholdingSimulation extends DeltaSimulation {
  #withholds = false;
  /** Requests for clusters, in the order in which they will be sent. */
  #withheld: Wire[] = [];
  /** Names of clusters by the nonce of the response that had them. */
  readonly #sentWith = new Map<string, readonly string[]>();
  /** It has sent no request for clusters on this stream. */
  #isFirst = false;

  /** A cluster begins to warm. Envoy answers its first clusters before. */
  withhold(): void {
    this.#withholds ||= this.model('cds').has.size > 0;
  }

  /** All clusters are warm. */
  release(): void {
    const withheld = this.#withheld;
    this.#withholds = false;
    this.#withheld = [];
    if (this.#isFirst) this.#sendFirst(withheld);
    this.up.push(...withheld);
  }

  /** The first request of a stream has what the proxy has by then, and is the answer to the first response. */
  #sendFirst(withheld: Wire[]): void {
    this.#isFirst = false;
    const model = this.model('cds');
    this.resume('cds', model);
    const answer = withheld.shift();
    const first = this.decode(this.first('cds', model));
    const answered = answer && this.decode(answer.bytes);
    const bytes = encodeDeltaRequest({
      typeUrl: first.typeUrl,
      subscribe: [...first.subscribe.names],
      initial: first.initialVersions,
      ...(answered && { nonce: answered.responseNonce }),
      ...(answered?.nack !== undefined && { error: answered.nack }),
    });
    this.up.push({ type: 'cds', bytes, answers: answer !== undefined });
  }

  /** The times are over that the server waits for the proxy. */
  timeOut(): void {
    const { machine } = this;
    machine.needClusters();
    if (machine.clustersUnanswered || machine.awaitsClusters) machine.presumeClusters();
    machine.stopAwaiting();
  }

  #watch(): void {
    this.machine.needClusters();
    if (this.machine.answersLate) this.machine.presumeClusters();
  }

  override push(): number {
    this.#watch();
    const sent = super.push();
    this.#watch();
    return sent;
  }

  override settle(): void {
    this.release();
    super.settle();
  }

  override reconnect(): void {
    const before = this.machine;
    super.reconnect();
    // It does not reconnect in some states.
    if (this.machine !== before) this.#withheld = [];
    this.#isFirst &&= this.#withholds;
  }

  protected override send(wire: Wire): void {
    if (wire.type !== 'cds' || !this.#withholds) super.send(wire);
    else this.#withheld.push(wire);
  }

  protected override sendFirst(type: XdsType, model: TypeModel): void {
    if (type === 'cds' && this.#withholds) this.#isFirst = true;
    else super.sendFirst(type, model);
  }

  protected override mayOverlap(type: XdsType): boolean {
    return type === 'cds' || super.mayOverlap(type);
  }

  /**
   * The list of what it has lacks what is sent before the server has read it. And whether a rejected response changed
   * something, the server only learns when it has sent others.
   */
  override deliverUp(): void {
    const [next] = this.up;
    if (next?.type === 'cds') {
      const { responseNonce, nack } = this.decode(next.bytes);
      if (nack !== undefined) this.#mayComeAgain(this.#sentWith.get(responseNonce) ?? []);
      if (this.model('cds').firstRequestOnWire)
        for (const wire of this.down) this.#mayComeAgain(this.#clustersIn(wire));
    }
    super.deliverUp();
  }

  override deliverDown(): void {
    const [next] = this.down;
    if (next?.type === 'cds') {
      const names = this.#clustersIn(next);
      this.#sentWith.set(this.parse(next.bytes).nonce, names);
      if (this.model('cds').firstRequestOnWire) this.#mayComeAgain(names);
    }
    super.deliverDown();
  }

  #clustersIn({ type, bytes }: Wire): readonly string[] {
    return type === 'cds' ? this.parse(bytes).resources.map(({ name }) => name) : [];
  }

  #mayComeAgain(names: readonly string[]): void {
    for (const name of names) this.model('cds').forced.add(name);
  }

  /** Whether it was asked or not, and however long it withholds its requests, the proxy gets clusters and routes. */
  checkServed(): void {
    for (let round = 0; this.up.length + this.down.length > 0 || round === 0 || this.push() > 0; round++) {
      assert.ok(round < 500, 'never settles');
      while (this.up.length > 0) this.deliverUp();
      this.timeOut();
      while (this.down.length > 0) this.deliverDown();
    }
    for (const type of ['cds', 'rds'] as const) {
      const { has, names, wildcard } = this.model(type);
      for (const [name, text] of this.content.texts(type))
        if (wildcard || names.has(name)) assert.equal(has.get(name), text, `${type} ${name} while clusters warm`);
    }
  }
}
