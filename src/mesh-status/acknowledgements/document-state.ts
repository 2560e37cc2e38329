/** What the proxies of one replica have of a document, and what the proxies of all replicas have. */
/** The version of a document in the API server. */
export interface DocumentVersion {
  readonly uid: string;
  readonly generation: number;
}

/** How far a document is with the proxies of one replica. */
export interface DocumentState extends DocumentVersion {
  /** The number of proxies that have not answered, or are not sent it yet. */
  readonly pending: number;
  /** The number of proxies that reject a resource that was generated from it. */
  readonly rejected: number;
  /** What one of them says; empty if none rejects one. */
  readonly message: string;
}

/** Maximum length of a proxy's message, characters. */
export const MAX_MESSAGE = 512;
/** Characters of the UID in reports: they only distinguish an object from another one that had its name before. */
const UID_LENGTH = 8;

export function encodeState({ uid, generation, pending, rejected, message }: DocumentState): string {
  const counts = [uid.slice(0, UID_LENGTH), generation, pending, rejected];
  return JSON.stringify(message === '' ? counts : [...counts, message]);
}

/** Undefined for anything else than an entry of a report. Its UID is shortened. */
export function decodeState(text: string): DocumentState | undefined {
  const read: unknown = JSON.parse(text);
  if (!Array.isArray(read)) return undefined;
  const [uid, generation, pending, rejected, message = ''] = read as unknown[];
  const numbers = [generation, pending, rejected];
  if (typeof uid !== 'string' || typeof message !== 'string') return undefined;
  if (!numbers.every((each) => Number.isSafeInteger(each) && (each as number) >= 0)) return undefined;
  const [ofGeneration = 0, waiting = 0, refusing = 0] = numbers as number[];
  const shown = message.slice(0, MAX_MESSAGE);
  return { uid, generation: ofGeneration, pending: waiting, rejected: refusing, message: shown };
}

export function isSameState(one: DocumentState | undefined, other: DocumentState | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return encodeState(one) === encodeState(other);
}

/** What the proxies of all replicas have of a version of a document. */
export interface JoinedState {
  /** Replicas that have not reported about this version. */
  readonly silent: number;
  readonly pending: number;
  readonly rejected: number;
  readonly message: string;
}

/** @param states of each replica with its last report about the document; undefined: there is none */
export function joinStates(
  { uid, generation }: DocumentVersion,
  states: readonly (DocumentState | undefined)[],
): JoinedState {
  const short = uid.slice(0, UID_LENGTH);
  const current = states.filter(
    (state): state is DocumentState =>
      state !== undefined && state.uid.slice(0, UID_LENGTH) === short && state.generation >= generation,
  );
  const sum = (count: (state: DocumentState) => number) => current.reduce((all, state) => all + count(state), 0);
  return {
    silent: states.length - current.length,
    pending: sum(({ pending }) => pending),
    rejected: sum(({ rejected }) => rejected),
    message: current.find(({ rejected }) => rejected > 0)?.message ?? '',
  };
}
