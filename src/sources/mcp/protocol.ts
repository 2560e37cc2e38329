/** The contract of the protocols by which configuration sources are read. Implementations do no I/O. */
import type { ResourceEvent } from '../../resources/index.ts';

/** What a message of the source has caused. */
export interface Received {
  /** The group of the message: a collection, or a type; undefined if it was not asked for. */
  readonly group: string | undefined;
  readonly events: readonly ResourceEvent[];
  /** Messages to send. */
  readonly replies: readonly Uint8Array[];
  /**
   * Why the message is no answer for its group, one line: it was refused as a whole, or does not say which documents
   * exist.
   */
  readonly problem?: string;
}

export interface ConfigProtocol {
  /** The method of the stream: `/package.Service/Method`. */
  readonly path: string;
  /** What is asked for. The source is synced when it has answered for all of them. */
  readonly groups: readonly string[];
  /** Begins a stream, and returns the first requests. */
  open(): readonly Uint8Array[];
  /** Throws CtlError `invalid_argument` for bytes that are no message. */
  receive(bytes: Buffer): Received;
}
