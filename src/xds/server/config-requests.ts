/** Streams that ask for documents of the mesh over ADS, as other control planes do (`src/mcp`). */
import { withPrefix } from '../../grpc/index.ts';
import { ConfigStream, type ServedDocuments } from '../../mcp/index.ts';
import type { Caller } from '../../security/index.ts';
import type { AnyRequest, DeltaRequest } from '../protocol/index.ts';
import type { Transport } from './transport.ts';

/** What answers such streams. */
export interface ConfigServing {
  readonly served: ServedDocuments;
  /** Throws CtlError for a caller that may not read all documents. */
  authorize(caller: Caller | undefined): void;
  /** A caller has refused documents; `message` is one line. */
  rejected(peer: string, message: string): void;
}

export interface ConfigRequestsDeps {
  readonly transport: Transport;
  readonly mode: 'sotw' | 'delta';
  readonly caller: Caller | undefined;
  readonly serving: ConfigServing;
  /** Ends the stream with an error. */
  readonly fail: (error: unknown) => void;
}

/** Of the error of a caller. */
const MAX_MESSAGE_CHARS = 1000;

export class ConfigRequests {
  readonly #deps: ConfigRequestsDeps;
  #stream: ConfigStream | undefined;
  #stop: (() => void) | undefined;

  constructor(deps: ConfigRequestsDeps) {
    this.#deps = deps;
  }

  receive(request: AnyRequest & Partial<Pick<DeltaRequest, 'initialVersions'>>): void {
    const { typeUrl, responseNonce, nack, initialVersions } = request;
    const { transport, serving, fail } = this.#deps;
    try {
      this.#stream ??= this.#open();
      if (nack !== undefined) {
        const message = nack.slice(0, MAX_MESSAGE_CHARS).replaceAll(/\s+/g, ' ');
        serving.rejected(transport.peer, `${typeUrl.slice(0, 256)}: ${message}`);
      }
      const known = initialVersions === undefined ? {} : { initialVersions };
      this.#stream.receive({ typeUrl, responseNonce, nack, ...known });
    } catch (error) {
      fail(error);
    }
  }

  close(): void {
    this.#stop?.();
  }

  /** @throws CtlError for a caller without permission */
  #open(): ConfigStream {
    const { transport, mode, caller, serving } = this.#deps;
    serving.authorize(caller);
    const stream = new ConfigStream(serving.served, mode, (response) => {
      transport.send(withPrefix(response), (result) => {
        if (result === 'timeout') transport.abort();
      });
    });
    this.#stop = serving.served.onChange((kinds) => stream.changed(kinds));
    return stream;
  }
}
