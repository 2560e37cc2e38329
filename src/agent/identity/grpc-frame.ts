/**
 * Framing of gRPC messages in an HTTP/2 stream: a byte that tells whether the message is compressed, four bytes of
 * length, the message. Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 * ("Length-Prefixed-Message")
 */
import { CtlError } from '../../core/errors.ts';

const HEAD = 5;

export function frame(message: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/**
 * Assembles messages from chunks. The returned function gives the messages that are complete. It throws CtlError
 * resource_exhausted for a message of more than `maxBytes`, before its bytes are stored, and unimplemented for a
 * compressed one.
 */
export function frameReader(maxBytes: number): (chunk: Buffer) => Buffer[] {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let wanted = HEAD;
  return (chunk) => {
    held.push(chunk);
    heldBytes += chunk.length;
    const messages: Buffer[] = [];
    while (heldBytes >= wanted) {
      const all = held.length === 1 && held[0] !== undefined ? held[0] : Buffer.concat(held);
      if (all[0] !== 0) throw new CtlError('unimplemented', 'compressed messages are not understood');
      const length = all.readUInt32BE(1);
      if (length > maxBytes) {
        throw new CtlError('resource_exhausted', `a message of ${length} bytes is more than ${maxBytes}`);
      }
      wanted = HEAD + length;
      held = [all];
      if (all.length < wanted) break;
      messages.push(all.subarray(HEAD, wanted));
      held = [all.subarray(wanted)];
      heldBytes = all.length - wanted;
      wanted = HEAD;
    }
    return messages;
  };
}
