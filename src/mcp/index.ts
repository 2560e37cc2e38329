/** Entry point of the configuration protocols: what both ends share, and their servers. */
export { ConfigStream } from './config-stream.ts';
export { BY_COLLECTION, BY_XDS_TYPE, EXCHANGED_KINDS, type ExchangedKind, isConfigType } from './kinds.ts';
export { createMcpService, type McpObserver, type McpReader, type McpService } from './mcp-service.ts';
export { McpStream } from './mcp-stream.ts';
export { type ReaderOptions, readerIdentities } from './readers.ts';
export { RESOURCE_TYPE_URL, readResource } from './resource.ts';
export { ServedDocuments } from './served-documents.ts';
