/**
 * Streams that ask for debug pages over ADS, as command lines of meshes do: the types `istio.io/debug`,
 * `istio.io/debug/syncz` and `istio.io/debug/config_dump`, which Istio serves on the same streams. Only callers with a
 * credential are answered. A stream asks for pages or for configuration, so that a page never waits in front of a push.
 */
import { CtlError } from '../../core/errors.ts';
import type { Identity } from '../../core/identity.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import type { Caller } from '../../security/index.ts';
import type { AnyRequest, DeltaRequest, SotwRequest } from '../protocol/index.ts';
import { encodeResponse } from './encode-response.ts';
import type { Transport } from './transport.ts';

const DEBUG_TYPE = 'istio.io/debug';

/** Whether a type URL names a debug page. */
export function isDebugType(typeUrl: string): boolean {
  return typeUrl === DEBUG_TYPE || typeUrl.startsWith(`${DEBUG_TYPE}/`);
}

/** Requests that wait for the page before theirs; reading is paused meanwhile, so that few are more. */
const MAX_WAITING = 16;

export interface DebugQuestion {
  readonly typeUrl: string;
  /** `resource_names`; of a Delta stream those that are subscribed to. */
  readonly names: readonly string[];
  readonly identity: Identity;
  /** IP address of the caller. */
  readonly address: string;
  /** Aborted when the stream has ended. */
  readonly closed: AbortSignal;
}

/** A resource of a response. */
export interface DebugResource {
  readonly name: string;
  readonly typeUrl: string;
  readonly value: Uint8Array;
}

export interface DebugAnswer {
  readonly resources: readonly DebugResource[];
  /** To be called when the response has left, or cannot. */
  release(): void;
}

/** What answers the requests of debug streams. */
export interface DebugPages {
  /** `control_plane.identifier` of responses: JSON with name and version of this replica. */
  readonly identifier: string;
  /** Rejects with CtlError, which ends the stream. */
  answer(question: DebugQuestion): Promise<DebugAnswer>;
}

export interface DebugStreamDeps {
  readonly transport: Transport;
  readonly mode: 'sotw' | 'delta';
  readonly address: string;
  readonly caller: Caller | undefined;
  /** Absent: no pages are served. */
  readonly pages: DebugPages | undefined;
  /** Ends the stream with an error. */
  readonly fail: (error: unknown) => void;
}

export class DebugStream {
  readonly #deps: DebugStreamDeps;
  readonly #closed = new AbortController();
  readonly #waiting: AnyRequest[] = [];
  #busy = false;
  #responses = 0;

  constructor(deps: DebugStreamDeps) {
    this.#deps = deps;
  }

  receive(request: AnyRequest): void {
    // Acknowledgements are not answered. Istio's command line sends a nonce of its own with its first request.
    const isAnswer = request.responseNonce !== '' && request.responseNonce === String(this.#responses);
    if (isAnswer || this.#closed.signal.aborted) return;
    if (this.#waiting.length >= MAX_WAITING) {
      this.#deps.fail(new CtlError('resource_exhausted', `more than ${MAX_WAITING} requests for debug pages wait`));
      return;
    }
    this.#waiting.push(request);
    if (!this.#busy) this.#answerAll().catch((error: unknown) => this.#deps.fail(error));
  }

  close(): void {
    this.#closed.abort();
    this.#waiting.length = 0;
  }

  async #answerAll(): Promise<void> {
    const { transport } = this.#deps;
    this.#busy = true;
    transport.pause();
    for (let request = this.#waiting.shift(); request !== undefined; request = this.#waiting.shift()) {
      await this.#answer(request);
      if (this.#closed.signal.aborted) return;
    }
    this.#busy = false;
    transport.resume();
  }

  async #answer(request: AnyRequest): Promise<void> {
    const { caller, pages, address } = this.#deps;
    const { typeUrl } = request;
    if (!isDebugType(typeUrl)) {
      throw new CtlError('invalid_argument', `a stream for debug pages has no ${typeUrl.slice(0, 256)}`);
    }
    if (caller === undefined || pages === undefined) {
      throw new CtlError('unauthenticated', 'debug pages need a credential: a certificate of the mesh or a token');
    }
    const { identity } = caller;
    const closed = this.#closed.signal;
    const { resources, release } = await pages.answer({ typeUrl, names: namesOf(request), identity, address, closed });
    try {
      if (!closed.aborted) await this.#send(typeUrl, resources, pages.identifier);
    } finally {
      release();
    }
  }

  #send(typeUrl: string, resources: readonly DebugResource[], identifier: string): Promise<void> {
    const { transport, mode } = this.#deps;
    this.#responses += 1;
    const number = String(this.#responses);
    // Field control_plane is 6 of DiscoveryResponse, and 7 of DeltaDiscoveryResponse.
    const controlPlane = encodeFields([[mode === 'sotw' ? 6 : 7, encodeFields([[1, identifier]])]]);
    const body = [controlPlane, ...resources.map((resource) => resourceField(mode, resource))];
    const message = { typeUrl, version: number, nonce: number, removed: [], body };
    return new Promise((resolve) => {
      transport.send(encodeResponse(message), (result) => {
        if (result === 'timeout') transport.abort();
        resolve();
      });
    });
  }
}

/** Field `resources` (2): an Any, or a Resource with it. */
function resourceField(mode: 'sotw' | 'delta', { name, typeUrl, value }: DebugResource): Uint8Array {
  const any = encodeFields([
    [1, typeUrl],
    [2, value],
  ]);
  return encodeFields([
    [
      2,
      mode === 'sotw'
        ? any
        : encodeFields([
            [2, any],
            [3, name],
          ]),
    ],
  ]);
}

function namesOf(request: AnyRequest & Partial<SotwRequest & DeltaRequest>): readonly string[] {
  return (request.names ?? request.subscribe)?.sorted() ?? [];
}
