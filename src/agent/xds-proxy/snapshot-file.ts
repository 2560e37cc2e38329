/**
 * The file of a snapshot (XDS_SAVE), for an agent that starts while the control plane cannot be reached. A line that
 * names the format, a line of JSON with names, versions and lengths, the resources' bytes, and a SHA-256 of all that.
 * Secrets are left out: they come from the agent or the control plane.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rename, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CtlError, errnoOf, messageOf } from '../../core/errors.ts';
import { XDS } from '../../core/xds-types.ts';
import { makeFolder } from '../folder.ts';
import type { Variant } from './messages.ts';
import { Snapshot } from './snapshot.ts';

const MAGIC = Buffer.from('meshd xDS snapshot 1\n');
const NEWLINE = 0x0a;
const DIGEST_BYTES = 32;
/** Larger ones are refused: the agent would need this much memory. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;
/** Write permission of group and others: they could configure Envoy. */
const OTHERS_WRITE = 0o022;
/** The file's name in a folder. */
const FILE_NAME = 'xds-snapshot';
/** Number of buffers that are written with one call. */
const BATCH = 256;

/** The proxy whose resources a file has; snapshots of other proxies are rejected. */
export interface SnapshotOwner {
  readonly nodeId: string;
  readonly variant: Variant;
}

interface Head extends SnapshotOwner {
  /** Epoch ms. */
  readonly asOf: number;
  readonly types: readonly {
    readonly typeUrl: string;
    readonly version: string;
    readonly resources: readonly (readonly [name: string, version: string, length: number])[];
  }[];
}

/** The path of the file: the setting itself, or a file in it when it is a folder or ends with a slash. */
export async function snapshotPath(setting: string): Promise<string> {
  if (setting.endsWith('/')) return join(setting, FILE_NAME);
  const found = await stat(setting).catch(() => undefined);
  return found?.isDirectory() === true ? join(setting, FILE_NAME) : setting;
}

/** Replaces the file in one step. Rejects with CtlError that names it; then the old one is still there. */
export async function writeSnapshot(path: string, owner: SnapshotOwner, snapshot: Snapshot): Promise<void> {
  // A copy of the current state, because the snapshot changes while it is written.
  const chunks = encodeSnapshot(owner, snapshot);
  const temporary = join(dirname(path), `.${basename(path)}.new`);
  try {
    await makeFolder(dirname(path), 0o700);
    // Removes a file that an earlier process left.
    await unlink(temporary).catch(() => undefined);
    const file = await open(temporary, 'wx', 0o600);
    try {
      await writeAll(file, chunks);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw new CtlError('unavailable', errnoOf(error) ?? messageOf(error), { file: path }, error);
  }
}

function encodeSnapshot(owner: SnapshotOwner, snapshot: Snapshot): readonly Buffer[] {
  const saved = [...snapshot.types()].filter(([typeUrl]) => typeUrl !== XDS.sds.url);
  const head: Head = {
    nodeId: owner.nodeId,
    variant: owner.variant,
    asOf: snapshot.asOf,
    types: saved.map(([typeUrl, { version, resources }]) => ({
      typeUrl,
      version,
      resources: [...resources.values()].map(({ name, version: each, bytes }) => [name, each, bytes.length] as const),
    })),
  };
  const bodies = saved.flatMap(([, { resources }]) => [...resources.values()].map(({ bytes }) => bytes));
  return [MAGIC, Buffer.from(`${JSON.stringify(head)}\n`), ...bodies];
}

async function writeAll(file: FileHandle, chunks: readonly Buffer[]): Promise<void> {
  const hash = createHash('sha256');
  for (let at = 0; at < chunks.length; at += BATCH) {
    const batch = Buffer.concat(chunks.slice(at, at + BATCH));
    hash.update(batch);
    await file.writeFile(batch);
  }
  await file.writeFile(hash.digest());
}

/** Makes the new name survive a power failure. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/**
 * Reads a snapshot; undefined when there is no file. Rejects with CtlError that names the file when it is incomplete,
 * of another program, of another proxy or of the other variant.
 */
export async function readSnapshot(
  path: string,
  owner: SnapshotOwner,
  changed: () => void,
): Promise<Snapshot | undefined> {
  const bytes = await readBounded(path);
  if (bytes === undefined) return undefined;
  const refused = (reason: string): CtlError => new CtlError('failed_precondition', reason, { file: path });
  if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) throw refused('the file is not a snapshot of this program');
  const end = bytes.length - DIGEST_BYTES;
  const digest = createHash('sha256')
    .update(bytes.subarray(0, Math.max(end, 0)))
    .digest();
  if (end < MAGIC.length || !digest.equals(bytes.subarray(end))) throw refused('the snapshot is incomplete or damaged');
  const newline = bytes.indexOf(NEWLINE, MAGIC.length);
  const head = JSON.parse(bytes.toString('utf8', MAGIC.length, newline)) as Head;
  if (head.nodeId !== owner.nodeId)
    throw refused(`the snapshot belongs to node ${head.nodeId}, not to ${owner.nodeId}`);
  if (head.variant !== owner.variant)
    throw refused('the snapshot was saved with the other xDS variant (MESH_DELTA_XDS)');
  const snapshot = new Snapshot(owner.variant, head.asOf, changed);
  let at = newline + 1;
  for (const { typeUrl, version, resources } of head.types) {
    const located = resources.map(([name, each, length]) => {
      at += length;
      return { name, version: each, bytes: bytes.subarray(at - length, at) };
    });
    snapshot.load(typeUrl, version, located);
  }
  return snapshot;
}

async function readBounded(path: string): Promise<Buffer | undefined> {
  try {
    // Not a pipe, which would block, nor a link, which another user may have made.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    try {
      const found = await file.stat();
      if (!found.isFile()) throw new CtlError('failed_precondition', 'it is not a regular file', { file: path });
      const isOwn = found.uid === process.getuid?.() || found.uid === 0;
      if (!isOwn || (found.mode & OTHERS_WRITE) !== 0)
        throw new CtlError('failed_precondition', 'another user can write the snapshot', { file: path });
      if (found.size > MAX_FILE_BYTES)
        throw new CtlError('failed_precondition', `the snapshot has more than ${MAX_FILE_BYTES} bytes`, { file: path });
      return await file.readFile();
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof CtlError) throw error;
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw new CtlError('unavailable', errnoOf(error) ?? messageOf(error), { file: path }, error);
  }
}
