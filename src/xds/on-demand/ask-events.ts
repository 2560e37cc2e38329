/** What observers are told of proxies on demand, for metrics. */

/** Something that happened to one proxy; the fields that are there. */
export interface AskEvent {
  /** It has asked for so many further names. */
  readonly names?: number;
  /** So many of the names that it has asked for are of hosts that the mesh does not know. */
  readonly unknown?: number;
  /** It gets so many virtual hosts because others have asked for them. */
  readonly learned?: number;
  /** It is to get what others have asked for, and has asked for so many hosts that nobody had asked for. */
  readonly missed?: number;
  /** It waited so long for answers that were written now, seconds. */
  readonly answered?: readonly number[];
}
