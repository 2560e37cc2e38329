/**
 * Profiles of V8 in the format of pprof (https://github.com/google/pprof/blob/main/proto/profile.proto), for
 * `go tool pprof`: gzipped protobuf. Frames of bundled code have the lines of their source files.
 */
import type { HeapProfiler, Profiler, Runtime } from 'node:inspector';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import protobuf from 'protobufjs';
import { sourceLocation } from '../../core/process/source-maps.ts';

/** Nodes of V8 that are no work. */
const IDLE: ReadonlySet<string> = new Set(['(idle)', '(root)']);

interface ValueType {
  readonly type: string;
  readonly unit: string;
}

export interface ProfileOptions {
  readonly types: readonly ValueType[];
  readonly periodType: ValueType;
  readonly period: number;
  /** When it began, Unix ms; how long it took. */
  readonly at: number;
  readonly ms: number;
  readonly comment: string;
}

/** The CPU time of a thread. `interval` is that of sampling, in microseconds. */
export function cpuProfile(profile: Profiler.Profile, interval: number, at: number, comment: string): Promise<Buffer> {
  const builder = new ProfileBuilder({
    types: [
      { type: 'samples', unit: 'count' },
      { type: 'cpu', unit: 'nanoseconds' },
    ],
    periodType: { type: 'cpu', unit: 'nanoseconds' },
    period: interval * 1000,
    at,
    ms: (profile.endTime - profile.startTime) / 1000,
    comment,
  });
  const times = new Map<number, { samples: number; microseconds: number }>();
  (profile.samples ?? []).forEach((id, index) => {
    const known = times.get(id) ?? { samples: 0, microseconds: 0 };
    known.samples++;
    // The clock may go back between two samples.
    known.microseconds += Math.max(0, profile.timeDeltas?.[index] ?? 0);
    times.set(id, known);
  });
  const parents = new Map(profile.nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  for (const [id, { samples, microseconds }] of times) {
    const stack: Runtime.CallFrame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const frame = nodes.get(at)?.callFrame;
      if (frame !== undefined) stack.push(frame);
    }
    builder.sample(stack, [samples, microseconds * 1000]);
  }
  return builder.finish();
}

/**
 * Memory by the places that allocated it.
 * @param type `inuse_space`: what is still used; `alloc_space`: all that was allocated
 * @param interval mean bytes between two samples
 */
export function heapProfile(
  { head }: HeapProfiler.SamplingHeapProfile,
  type: 'inuse_space' | 'alloc_space',
  { interval, at, ms, comment }: { interval: number; at: number; ms: number; comment: string },
): Promise<Buffer> {
  const bytes = { type, unit: 'bytes' };
  const periodType = { type: 'space', unit: 'bytes' };
  const builder = new ProfileBuilder({ types: [bytes], periodType, period: interval, at, ms, comment });
  const visit = (node: HeapProfiler.SamplingHeapProfileNode, callers: readonly Runtime.CallFrame[]): void => {
    const stack = [node.callFrame, ...callers];
    if (node.selfSize > 0) builder.sample(stack, [node.selfSize]);
    for (const child of node.children) visit(child, stack);
  };
  visit(head, []);
  return builder.finish();
}

/** Numbers of the fields of `Profile`. */
const FIELD = { type: 1, sample: 2, location: 4, function: 5, text: 6, at: 9, duration: 10, periodType: 11 } as const;
const PERIOD = 12;
const COMMENT = 13;
const DEFAULT_TYPE = 14;

/** The tag of a field: 0 for numbers, 2 for what has a length. */
const tag = (field: number, wire: 0 | 2): number => (field << 3) | wire;

class ProfileBuilder {
  readonly #writer = protobuf.Writer.create();
  readonly #texts = new Map<string, number>([['', 0]]);
  readonly #functions = new Map<string, number>();
  readonly #locations = new Map<string, number>();
  readonly #options: ProfileOptions;

  constructor(options: ProfileOptions) {
    this.#options = options;
    for (const type of options.types) this.#valueType(FIELD.type, type);
  }

  /** @param stack the innermost frame first */
  sample(stack: readonly Runtime.CallFrame[], values: readonly number[]): void {
    const [innermost] = stack;
    if (innermost === undefined || IDLE.has(innermost.functionName)) return;
    const locations = stack.filter(({ functionName }) => !IDLE.has(functionName)).map((each) => this.#location(each));
    const writer = this.#writer.uint32(tag(FIELD.sample, 2)).fork();
    writer.uint32(tag(1, 2)).fork();
    for (const id of locations) writer.uint64(id);
    writer.ldelim().uint32(tag(2, 2)).fork();
    for (const value of values) writer.int64(Math.round(value));
    writer.ldelim().ldelim();
  }

  finish(): Promise<Buffer> {
    const { at, ms, periodType, period, comment, types } = this.#options;
    this.#number(FIELD.at, at * 1e6);
    this.#number(FIELD.duration, ms * 1e6);
    this.#valueType(FIELD.periodType, periodType);
    this.#number(PERIOD, period);
    this.#number(COMMENT, this.#text(comment));
    this.#number(DEFAULT_TYPE, this.#text(types.at(-1)?.type ?? ''));
    for (const text of this.#texts.keys()) this.#writer.uint32(tag(FIELD.text, 2)).string(text);
    return promisify(gzip)(this.#writer.finish());
  }

  #number(field: number, value: number): void {
    this.#writer.uint32(tag(field, 0)).int64(Math.round(value));
  }

  #valueType(field: number, { type, unit }: ValueType): void {
    const [typeText, unitText] = [this.#text(type), this.#text(unit)];
    const writer = this.#writer.uint32(tag(field, 2)).fork();
    writer.uint32(tag(1, 0)).int64(typeText).uint32(tag(2, 0)).int64(unitText).ldelim();
  }

  #text(text: string): number {
    const known = this.#texts.get(text) ?? this.#texts.size;
    this.#texts.set(text, known);
    return known;
  }

  #location({ functionName, url, lineNumber, columnNumber }: Runtime.CallFrame): number {
    const { file, line } = sourceLocation(url, lineNumber + 1, columnNumber + 1);
    const name = functionName === '' ? '(anonymous)' : functionName;
    const key = JSON.stringify([name, file, line]);
    const known = this.#locations.get(key);
    if (known !== undefined) return known;
    const id = this.#locations.size + 1;
    this.#locations.set(key, id);
    const ofFunction = this.#function(name, file);
    const writer = this.#writer.uint32(tag(FIELD.location, 2)).fork();
    writer.uint32(tag(1, 0)).uint64(id).uint32(tag(4, 2)).fork();
    writer.uint32(tag(1, 0)).uint64(ofFunction).uint32(tag(2, 0)).int64(Math.max(0, line));
    writer.ldelim().ldelim();
    return id;
  }

  #function(name: string, file: string): number {
    const key = JSON.stringify([name, file]);
    const known = this.#functions.get(key);
    if (known !== undefined) return known;
    const id = this.#functions.size + 1;
    this.#functions.set(key, id);
    const [nameText, fileText] = [this.#text(name), this.#text(file)];
    const writer = this.#writer.uint32(tag(FIELD.function, 2)).fork();
    writer.uint32(tag(1, 0)).uint64(id).uint32(tag(2, 0)).int64(nameText);
    writer.uint32(tag(3, 0)).int64(nameText).uint32(tag(4, 0)).int64(fileText).ldelim();
    return id;
  }
}
