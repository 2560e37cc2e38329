/**
 * The agent's connection to the control plane: decides on which stream the agent's own types and reports travel.
 */
import { toCtlError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { readResponse, type Variant, writeRequest } from './messages.ts';
import { OwnTypes } from './own-types.ts';
import type { ControlPlaneConnection, OwnType, WorkloadHealth } from './types.ts';
import type { Upstream, UpstreamStream } from './upstream.ts';

export interface ConnectionOptions {
  readonly upstream: Upstream;
  readonly variant: Variant;
  /** The encoded Node of the agent's own stream. */
  readonly node: Buffer;
  readonly log: Log;
}

export class Connection implements ControlPlaneConnection {
  readonly #options: ConnectionOptions;
  readonly #own: OwnTypes;
  #stream: UpstreamStream | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#own = new OwnTypes(options.log);
  }

  subscribe(type: OwnType): void {
    this.#own.subscribe(type);
    this.#open();
  }

  reportHealth(health: WorkloadHealth): void {
    this.#own.reportHealth(health);
    this.#open();
  }

  state(): { readonly connected: boolean; readonly since: number } {
    return this.#options.upstream.state();
  }

  async close(): Promise<void> {
    await this.#stream?.close();
  }

  #open(): void {
    this.#stream ??= openOwnStream(this.#options, this.#own);
  }
}

/** Opens a stream for the agent's own types alone. */
function openOwnStream({ upstream, variant, node, log }: ConnectionOptions, own: OwnTypes): UpstreamStream {
  const stream = upstream.open(variant, {
    attached(link) {
      let isFirst = true;
      own.attach(variant, (request) => {
        link.write(writeRequest(variant, isFirst ? { ...request, node } : request));
        isFirst = false;
      });
    },
    message(bytes) {
      try {
        const response = readResponse(variant, bytes);
        if (own.has(response.typeUrl)) own.receive(response);
        else log.debug('a response without a subscription', { type: response.typeUrl });
      } catch (error) {
        stream.fail(toCtlError(error));
      }
    },
    drained: () => undefined,
    detached: () => own.detach(),
    failed: () => undefined,
  });
  return stream;
}
