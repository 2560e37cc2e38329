/**
 * The client's SETTINGS. Its maximum frame size is not used: the smallest size is always allowed and costs nothing.
 * Source: RFC 9113 sections 6.5.2 and 6.9.2; RFC 7541 section 4.2
 */
import { DEFAULT_WINDOW_BYTES, ERROR, FRAME_PAYLOAD_BYTES, Http2Error, MAX_WINDOW_BYTES, SETTING } from './frames.ts';

const ENTRY_BYTES = 6;
const LARGEST_FRAME_PAYLOAD_BYTES = 2 ** 24 - 1;
const DEFAULT_TABLE_BYTES = 4096;

/** Sets the size of the compression table to 0, at the beginning of a header block. */
const EMPTY_TABLE = Buffer.from([0x20]);

export class PeerSettings {
  /** Initial send window of streams. */
  initialWindow = DEFAULT_WINDOW_BYTES;
  #tableUpdateDue = false;

  /** Reads the payload of SETTINGS. Returns by how much the windows of open streams grow. Throws Http2Error. */
  take(payload: Buffer): number {
    if (payload.length % ENTRY_BYTES !== 0) throw new Http2Error(ERROR.frameSize, 'SETTINGS of the wrong size');
    const before = this.initialWindow;
    for (let at = 0; at < payload.length; at += ENTRY_BYTES)
      this.#set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    return this.initialWindow - before;
  }

  #set(id: number, value: number): void {
    switch (id) {
      case SETTING.initialWindowSize:
        if (value > MAX_WINDOW_BYTES) throw new Http2Error(ERROR.flowControl, 'a window over 2^31-1');
        this.initialWindow = value;
        break;
      case SETTING.headerTableSize:
        // The server's blocks use no table, but the next one has to acknowledge a smaller table.
        if (value < DEFAULT_TABLE_BYTES) this.#tableUpdateDue = true;
        break;
      case SETTING.enablePush:
        if (value > 1) throw new Http2Error(ERROR.protocol, 'ENABLE_PUSH must be 0 or 1');
        break;
      case SETTING.maxFrameSize:
        if (value < FRAME_PAYLOAD_BYTES || value > LARGEST_FRAME_PAYLOAD_BYTES)
          throw new Http2Error(ERROR.protocol, 'MAX_FRAME_SIZE must be from 2^14 to 2^24-1');
        break;
      default:
    }
  }

  /** Bytes that have to precede the next header block, once. */
  takeTableUpdate(): Buffer | undefined {
    if (!this.#tableUpdateDue) return undefined;
    this.#tableUpdateDue = false;
    return EMPTY_TABLE;
  }
}
