/** Versions of generated resources, hashed once for all views. */
import type { Memos, WeakMemo } from '../../core/memo.ts';
import type { GeneratedResource } from '../../generate/index.ts';
import { contentVersion } from './encode-resource.ts';

/** Versions of messages that generation still has: hashed once for all views. */
export type MessageVersions = WeakMemo<Uint8Array, string>;

export function versionsOfMessages(memos: Memos): MessageVersions {
  return memos.weak('versions of messages');
}

function versionOf(versions: MessageVersions, bytes: Uint8Array): string {
  return versions.get(bytes, () => contentVersion(bytes));
}

/**
 * The hash of the pieces' hashes. It identifies the content as well as a hash of the message would, because a message
 * is always cut into the same pieces; and a changed virtual host does not cost hashing the thousand others.
 */
function versionOfPieces(versions: MessageVersions, pieces: readonly Uint8Array[]): string {
  return contentVersion(Buffer.from(pieces.map((piece) => versionOf(versions, piece)).join(''), 'latin1'));
}

export function versionOfResource(versions: MessageVersions, resource: GeneratedResource): string {
  const { pieces } = resource;
  return pieces === undefined ? versionOf(versions, resource.bytes) : versionOfPieces(versions, pieces);
}
