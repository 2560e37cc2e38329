/**
 * The frames of responses: compressed for streams whose clients accept gzip, where their bodies have a compressed form;
 * all others as they are.
 */
import { XDS, type XdsType } from '../../../core/xds-types.ts';
import { acceptsEncoding, deflatePart, type MessageEncoding, type Metadata } from '../../../grpc/index.ts';
import { hasClusterPatches, type Parts } from '../../../push/index.ts';
import type { Outgoing } from '../../protocol/index.ts';
import { compressResponse } from '../encode-response.ts';
import { RecentFrames } from '../recent-frames.ts';
import { CompressedBodies } from './compressed-bodies.ts';

/** A response as it is sent. */
export interface ResponseFrame {
  readonly chunks: readonly Uint8Array[];
  /** Length of the message before compression, with its prefix. */
  readonly bytes: number;
  /** Length of the message as it is sent; undefined where it is not compressed. */
  readonly compressed: number | undefined;
}

/** Makes the frames of one stream. */
export interface StreamFrames {
  /** Of compressed messages; undefined: there are none. */
  readonly encoding: MessageEncoding | undefined;
  /** To be called before responses of these parts are encoded. */
  sends(parts: Parts): void;
  encode(response: Outgoing): ResponseFrame;
}

function lengthOf(chunks: readonly Uint8Array[]): number {
  let length = 0;
  for (const chunk of chunks) length += chunk.length;
  return length;
}

/**
 * Whether resources may be compressed; see the table of types. The length would say something about credentials in them
 * to those who see the encrypted bytes. Source: RFC 7457 section 2.6
 */
function isCompressed(type: XdsType, isPatched: boolean): boolean {
  const { compressed } = XDS[type];
  return compressed === 'all' || (compressed === 'unpatched' && !isPatched);
}

/** The frames of all streams of a server. */
export class ResponseFrames {
  readonly #recent: RecentFrames;
  readonly #bodies = new CompressedBodies(deflatePart);
  /** For clients that do not accept compressed messages. */
  readonly plain: StreamFrames = {
    encoding: undefined,
    sends: () => {},
    encode: (response) => this.#asItIs(response),
  };
  readonly #compresses: boolean;

  /**
   * @param remembers false: each frame is encoded again
   * @param compresses false: no frame is compressed
   */
  constructor(remembers = true, compresses = false) {
    this.#recent = new RecentFrames(remembers);
    this.#compresses = compresses;
  }

  /** For a stream of a caller whose request has this metadata. */
  of(metadata: Metadata, caller: string): StreamFrames {
    if (!this.#compresses || !acceptsEncoding(metadata, 'gzip')) return this.plain;
    // For as long as the stream lives: it may be sent a patched cluster again, because the proxy rejects a newer one.
    let isPatched = false;
    return {
      encoding: 'gzip',
      sends: ({ cds }) => {
        isPatched ||= cds.some(({ viewKey }) => hasClusterPatches(viewKey));
      },
      encode: (response) =>
        isCompressed(response.type, isPatched) ? this.#compressed(response, caller) : this.#asItIs(response),
    };
  }

  /** Responses are no longer sent. */
  close(): void {
    this.#bodies.close();
  }

  #asItIs({ message }: Outgoing): ResponseFrame {
    const chunks = this.#recent.encode(message);
    return { chunks, bytes: lengthOf(chunks), compressed: undefined };
  }

  #compressed(response: Outgoing, caller: string): ResponseFrame {
    const made = compressResponse(response.message, (body) => this.#bodies.of(body, caller));
    return made === undefined ? this.#asItIs(response) : { ...made, compressed: lengthOf(made.chunks) };
  }
}
