/** The contract of the protocols by which configuration sources are read. Implementations do no I/O. */
import type { CtlError } from '../../core/errors.ts';
import type { Slices } from '../../core/slices.ts';
import type { ResourceEvent, ResourceKey } from '../../resources/index.ts';

/** What a message of the source has caused. */
export interface Received {
  /** The group of the message: a collection, or a type; undefined if it was not asked for. */
  readonly group: string | undefined;
  readonly events: readonly ResourceEvent[];
  /** Messages to send. */
  readonly replies: readonly Uint8Array[];
  /** The documents of the message that could be read. Absent: it has none. */
  readonly documents?: readonly ResourceKey[];
  /**
   * What to send in place of {@link replies} if documents of the message turn out to be refused: their names, and why.
   * Absent: it has no documents.
   */
  readonly nack?: (refused: readonly string[]) => readonly Uint8Array[];
  /**
   * Why the message is no answer for its group, one line: it was refused as a whole, or does not say which documents
   * exist.
   */
  readonly problem?: string;
}

export interface ConfigProtocol {
  /** The method of the next stream: `/package.Service/Method`. */
  readonly path: string;
  /** What is asked for. The source is synced when it has answered for all of them. */
  readonly groups: readonly string[];
  /** Groups that the stream has to answer soon, beside those that were never answered; after silence, others are asked. */
  readonly awaited: readonly string[];
  /** Begins a stream, and returns the first requests. */
  open(): readonly Uint8Array[];
  /** Processes a message in slices; one message at a time. Throws CtlError `invalid_argument` for other bytes. */
  receive(bytes: Buffer): Slices<Received>;
  /**
   * The stream has ended. Returns what the next one, which is opened at once, requests instead, one line; undefined if
   * the source does not offer less than was requested.
   */
  afterEnd(error: CtlError): string | undefined;
  /** The same while the source is silent about groups that it has never answered for, or that are awaited. */
  afterSilence(): string | undefined;
}
