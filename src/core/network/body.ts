/** Reads the bodies of requests and responses within a limit. */

/** The whole body; undefined as soon as it is longer. Reading ends then, which destroys a stream of Node. */
export async function readUpTo(maxBytes: number, body: AsyncIterable<Uint8Array>): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

/** The first bytes of a body. Reading ends with them, which destroys a stream of Node. */
export async function readFirst(maxBytes: number, body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= maxBytes) break;
  }
  return Buffer.concat(chunks, Math.min(size, maxBytes));
}
