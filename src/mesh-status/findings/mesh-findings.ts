/**
 * What analysis finds in the mesh, by object: computed again after changes, in slices with pauses between them, so that
 * pushes are not delayed.
 */
import { type AnalysisInput, analyze, type Finding } from '../../analysis/index.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { ResourceKey } from '../../resources/index.ts';
import { isForReaders, type ValidationMessage, validationMessage } from './validation-messages.ts';

export interface MeshFindingsOptions {
  readonly clock: Clock;
  readonly input: () => AnalysisInput;
  readonly log: Log;
  /** The findings about these documents have changed. */
  onChanged(documents: readonly ResourceKey[]): void;
}

/** Time after a change before the mesh is analyzed, ms: changes rarely come alone. */
const SETTLE_MS = 1_000;
/** Length of a slice, ms, and the maximum share of time that slices take. */
const [SLICE_MS, SLICE_SHARE] = [5, 1 / 10];
/** Maximum number of messages in one status, the most severe first. */
const MAX_MESSAGES = 30;

/** By UID of the object. */
type Messages = ReadonlyMap<
  string,
  { readonly document: ResourceKey; readonly messages: readonly ValidationMessage[] }
>;

interface Run {
  readonly findings: Generator<Finding | undefined, void>;
  readonly rootNamespace: string;
  readonly found: Finding[];
}

export class MeshFindings {
  readonly #options: MeshFindingsOptions;
  /** Undefined until the mesh was analyzed. */
  #messages: Messages | undefined;
  #timer: Timer | undefined;
  #run: Run | undefined;
  #isOutdated = false;
  #closed = false;

  constructor(options: MeshFindingsOptions) {
    this.#options = options;
  }

  /** The mesh has changed. */
  changed(): void {
    this.#isOutdated = true;
    if (this.#run === undefined && this.#timer === undefined) this.#after(SETTLE_MS);
  }

  /** The findings about an object; undefined while they are not known. */
  of(uid: string): readonly ValidationMessage[] | undefined {
    return this.#messages === undefined ? undefined : (this.#messages.get(uid)?.messages ?? []);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#run?.findings.return();
  }

  #after(ms: number): void {
    if (this.#closed) return;
    this.#timer = this.#options.clock.setTimer(ms, () => {
      this.#timer = undefined;
      this.#step();
    });
  }

  #step(): void {
    const { clock, log } = this.#options;
    const started = clock.now();
    try {
      this.#run ??= this.#begin();
      if (this.#slice(this.#run, started)) this.#end(this.#run);
    } catch (error) {
      // The next change is analyzed anew.
      log.error(`analysis failed: ${messageOf(error)}`);
      this.#run = undefined;
    }
    const pause = (clock.now() - started) / SLICE_SHARE;
    if (this.#run !== undefined) this.#after(pause);
    else if (this.#isOutdated) this.#after(Math.max(pause, SETTLE_MS));
  }

  #begin(): Run {
    this.#isOutdated = false;
    const input = this.#options.input();
    const { rootNamespace } = input.snapshot.settings;
    return { findings: analyze(input).findings, rootNamespace, found: [] };
  }

  /** Whether everything was found. */
  #slice({ findings, rootNamespace, found }: Run, started: number): boolean {
    const { clock } = this.#options;
    for (;;) {
      const next = findings.next();
      if (next.done === true) return true;
      const finding = next.value;
      if (finding?.origin.uid !== undefined && isForReaders(finding, rootNamespace)) found.push(finding);
      if (clock.now() - started >= SLICE_MS) return false;
    }
  }

  #end({ found }: Run): void {
    this.#run = undefined;
    const before = this.#messages ?? new Map();
    const after = messagesOf(found);
    const isSame = (uid: string) =>
      JSON.stringify(before.get(uid)?.messages) === JSON.stringify(after.get(uid)?.messages);
    const changed = [...new Set([...before.keys(), ...after.keys()])].filter((uid) => !isSame(uid));
    const isFirst = this.#messages === undefined;
    this.#messages = after;
    const documents = changed.flatMap((uid) => (after.get(uid) ?? before.get(uid))?.document ?? []);
    if (isFirst || documents.length > 0) this.#options.onChanged(documents);
  }
}

function messagesOf(found: readonly Finding[]): Messages {
  const byObject = new Map<string, { readonly document: ResourceKey; readonly messages: ValidationMessage[] }>();
  const order = { ERROR: 0, WARNING: 1, INFO: 2 };
  for (const finding of found) {
    const { kind, namespace, name } = finding.resource;
    const uid = finding.origin.uid ?? '';
    const known = byObject.get(uid) ?? { document: `${kind}/${namespace}/${name}`, messages: [] };
    byObject.set(uid, known);
    known.messages.push(validationMessage(finding));
  }
  // The same findings have the same order, so that nothing is written when an analyzer finds them in another one.
  for (const { messages } of byObject.values()) {
    const text = ({ type, message }: ValidationMessage) => `${type.code} ${message}`;
    messages.sort((one, other) => order[one.level] - order[other.level] || (text(one) < text(other) ? -1 : 1));
    messages.splice(MAX_MESSAGES);
  }
  return byObject;
}
