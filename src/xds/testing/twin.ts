/**
 * Test support: a machine that is compared with another one. That one has its memos switched off and is given copies of
 * all parts and requests, so that it can remember nothing, and has to give the same answers and messages.
 */
import assert from 'node:assert/strict';
import { XDS_TYPES, type XdsType } from '../../core/xds-types.ts';
import { WireReader } from '../../protobuf/wire/index.ts';
import type { Parts } from '../../push/types.ts';
import type { Answer } from '../protocol/inflight.ts';
import { AdsMachine, type PushResult } from '../protocol/machine.ts';
import { NameSet, NO_NAMES } from '../protocol/name-set.ts';
import type { AnyRequest } from '../protocol/requests.ts';
import type { Variant } from '../protocol/variant.ts';

function copyOf(parts: Parts): Parts {
  const copies = XDS_TYPES.map((type) => [type, [...parts[type]]]);
  return Object.fromEntries(copies) as Parts;
}

/** The request with copied lists, as a server with its memos switched off reads it. */
function copyOfRequest<Request extends AnyRequest>(request: Request): Request {
  const copies = Object.entries(request).map(([key, value]) => {
    if (value instanceof NameSet && value !== NO_NAMES) return [key, new NameSet(new Set(value.names), value.hash)];
    return [key, value instanceof Map ? new Map(value) : value];
  });
  return Object.fromEntries(copies) as Request;
}

/**
 * Answers and messages without the order of resources, which is that in which some proxy named them first and has no
 * meaning.
 */
function plainAnswer({ kind, changed, quarantined }: Answer): unknown {
  return { kind, changed: changed.toSorted((a, b) => (a.name < b.name ? -1 : 1)), quarantined: quarantined.toSorted() };
}

function plainResult({ messages, waiting }: PushResult): unknown {
  const plain = messages.map(({ type, message }) => {
    const reader = new WireReader(Buffer.concat(message.body));
    const resources: string[] = [];
    for (let field = reader.next(); field !== undefined; field = reader.next())
      resources.push(reader.bytes.toString('latin1', field.start, field.end));
    return { type, ...message, removed: message.removed.toSorted(), body: resources.sort() };
  });
  return { messages: plain, waiting };
}

export class TwinMachine<Request extends AnyRequest> extends AdsMachine<Request> {
  readonly #twin: AdsMachine<Request>;
  #pushing = false;

  /** @param unshared the same variant with its memos switched off */
  constructor(protocol: Variant<Request>, unshared: Variant<Request>) {
    super(protocol);
    this.#twin = new AdsMachine(unshared);
  }

  override stopAwaiting(): void {
    super.stopAwaiting();
    this.#twin.stopAwaiting();
  }

  override needClusters(): void {
    super.needClusters();
    this.#twin.needClusters();
  }

  override presumeClusters(): void {
    super.presumeClusters();
    this.#twin.presumeClusters();
  }

  override receive(type: XdsType, request: Request, parts: Parts, nowMs: number): Answer {
    const answer = super.receive(type, request, parts, nowMs);
    const twins = this.#twin.receive(type, copyOfRequest(request), copyOf(parts), nowMs);
    assert.deepEqual(plainAnswer(twins), plainAnswer(answer));
    assert.deepEqual(this.#twin.typesToSend(copyOf(parts)), this.typesToSend(parts));
    return answer;
  }

  override push(parts: Parts, snapshot: number): PushResult {
    this.#pushing = true;
    const result = super.push(parts, snapshot);
    this.#pushing = false;
    assert.deepEqual(plainResult(this.#twin.push(copyOf(parts), snapshot)), plainResult(result));
    return result;
  }

  override complete(parts: Parts): boolean {
    const complete = super.complete(parts);
    // A push calls this too, before the other one has pushed.
    if (!this.#pushing) assert.equal(this.#twin.complete(copyOf(parts)), complete);
    return complete;
  }
}
