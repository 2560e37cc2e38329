/**
 * Entry point of the mesh's documents as protobuf messages (`DOCUMENT_MESSAGES` in `proto/messages.ts`). Separate from
 * that of `protobuf`: only programs that exchange documents with other control planes load it, at the first use.
 */
export { type DecodedDocument, decodeDocument } from './decode.ts';
export { encodeDocument, type LabelKey } from './encode.ts';
