/** Test support: a machine that is held against another, which is given copies of all parts each time, so that it can remember nothing of them. */
import assert from 'node:assert/strict';
import { XDS_TYPES, type XdsType } from '../generate/types.ts';
import type { Parts } from '../push/types.ts';
import { AdsMachine, type PushResult } from './machine.ts';
import type { Protocol } from './protocol.ts';
import type { Answer } from './subscription.ts';

function copyOf(parts: Parts): Parts {
  const copies = XDS_TYPES.map((type) => [type, [...parts[type]]]);
  return Object.fromEntries(copies) as Parts;
}

export class TwinMachine<Request> extends AdsMachine<Request> {
  readonly #twin: AdsMachine<Request>;
  #pushing = false;

  constructor(protocol: Protocol<Request>) {
    super(protocol);
    this.#twin = new AdsMachine(protocol);
  }

  override stopAwaiting(): void {
    super.stopAwaiting();
    this.#twin.stopAwaiting();
  }

  override receive(type: XdsType, request: Request, parts: Parts, nowMs: number): Answer {
    const answer = super.receive(type, request, parts, nowMs);
    assert.deepEqual(this.#twin.receive(type, request, copyOf(parts), nowMs), answer);
    assert.deepEqual(this.#twin.due(copyOf(parts)), this.due(parts));
    return answer;
  }

  override push(parts: Parts, snapshot: number): PushResult {
    this.#pushing = true;
    const result = super.push(parts, snapshot);
    this.#pushing = false;
    assert.deepEqual(this.#twin.push(copyOf(parts), snapshot), result);
    return result;
  }

  override complete(parts: Parts): boolean {
    const complete = super.complete(parts);
    // A push asks, too, before the other has pushed.
    if (!this.#pushing) assert.equal(this.#twin.complete(copyOf(parts)), complete);
    return complete;
  }
}
