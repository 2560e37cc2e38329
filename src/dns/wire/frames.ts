/** DNS messages over a stream: each preceded by its length in two bytes (RFC 1035 section 4.2.2). */

/** A message with its length, for one write (RFC 7766 section 8). */
export function framed(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(message.length + 2);
  frame.writeUInt16BE(message.length, 0);
  message.copy(frame, 2);
  return frame;
}

/** Cuts a stream into messages. Keeps one incomplete message, and copies each byte once. */
export interface FrameReader {
  /** Undefined: the message is longer than the limit, or empty, and nothing after it can be read. */
  read(chunk: Buffer): readonly Buffer[] | undefined;
}

/** @param maxBytes of a message */
export function createFrameReader(maxBytes: number): FrameReader {
  let head: number | undefined;
  let body: Buffer | undefined;
  let filled = 0;
  return {
    read(chunk) {
      const messages: Buffer[] = [];
      for (let at = 0; at < chunk.length; ) {
        if (body === undefined) {
          const byte = chunk[at++] ?? 0;
          if (head === undefined) {
            head = byte;
            continue;
          }
          const length = (head << 8) | byte;
          if (length === 0 || length > maxBytes) return undefined;
          [body, head, filled] = [Buffer.allocUnsafe(length), undefined, 0];
          continue;
        }
        const copied = chunk.copy(body, filled, at);
        filled += copied;
        at += copied;
        if (filled < body.length) continue;
        messages.push(body);
        body = undefined;
      }
      return messages;
    },
  };
}
