/**
 * Sequences of frames, each on a connection of its own, cut into pieces of any size: nothing is
 * thrown, sent frames follow HTTP/2 and the client's windows, memory is bounded, every call and every write
 * ends once, and a connection that stays open answers. A second connection is served meanwhile. Each
 * sequence is a function of its number.
 */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { CtlError } from '../core/errors.ts';
import { Connection } from './connection.ts';
import { FLAG_ACK, FLAG_END_STREAM, FRAME, frame, Http2Error, PREFACE, settingsFrame } from './frames/frames.ts';
import { TurnScheduler } from './limits/turn-scheduler.ts';
import type { Stream } from './streams/stream.ts';
import { type FrameSequence, FrameSequences, Random } from './testing/random-frames.ts';

/** A million, for instance, takes half a minute: `FUZZ_SEQUENCES=1000000`. */
const SEQUENCES = Number(process.env.FUZZ_SEQUENCES ?? 300_000);
/** Number of tests, so that none is too slow on a slow machine. */
const PARTS = 10;
const SEED = 20_26;

const MAX_FRAMES = 24;
const MAX_STREAMS = 4;
const FIRST_WINDOW_BYTES = 65_535;

/** Slices of one connection and the control frames that may wait behind them. */
const MAX_KEPT_BYTES = 700_000;

const CONTENT = [0, 10, 5000, 100_000].map((length) => Buffer.alloc(length));
const BEGINNING = Buffer.concat([PREFACE, settingsFrame([])]);
const LAST_PING = Buffer.from('the last');
const BYSTANDER_PING = frame(FRAME.ping, 0, 0, Buffer.alloc(8));

/** Checks the frames of the server against the protocol. */
class Listener {
  readonly #header = Buffer.alloc(9);
  #filled = 0;
  /** Bytes of a payload that have not arrived, and those of a PING that have. */
  #left = 0;
  #text = '';
  /** Streams on which headers were sent, and streams that have ended. */
  readonly #begun = new Set<number>();
  readonly #ended = new Set<number>();
  readonly #reset = new Set<number>();
  data = 0;
  goAwaySent = false;
  answeredLast = 0;

  take(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left > 0) {
        const end = Math.min(chunk.length, at + this.#left);
        if (this.#header[3] === FRAME.ping) this.#text += Buffer.from(chunk.subarray(at, end)).toString('latin1');
        this.#left -= end - at;
        at = end;
        if (this.#left === 0 && this.#header[3] === FRAME.ping) this.#pinged();
        continue;
      }
      this.#header[this.#filled++] = chunk[at++] ?? 0;
      if (this.#filled < 9) continue;
      this.#filled = 0;
      this.#left = this.#header.readUIntBE(0, 3);
      this.#frame(this.#header.readUInt8(3), this.#header.readUInt8(4), this.#header.readUInt32BE(5));
    }
  }

  #pinged(): void {
    if (this.#header[4] === FLAG_ACK && this.#text === 'the last') this.answeredLast++;
    this.#text = '';
  }

  #frame(type: number, flags: number, stream: number): void {
    assert.ok(!this.goAwaySent, `a frame of type ${type} behind the last GOAWAY`);
    if (type === FRAME.goaway) return;
    if (type !== FRAME.headers && type !== FRAME.data && type !== FRAME.rstStream) return;
    assert.ok(!this.#reset.has(stream), `a frame of type ${type} on a stream that was reset`);
    if (type === FRAME.rstStream) {
      this.#reset.add(stream);
      return;
    }
    assert.ok(!this.#ended.has(stream), `a frame of type ${type} behind the end of its stream`);
    if (type === FRAME.headers) this.#begun.add(stream);
    else {
      assert.ok(this.#begun.has(stream), 'DATA before HEADERS');
      this.data += this.#left;
    }
    if ((flags & FLAG_END_STREAM) !== 0) this.#ended.add(stream);
  }
}

type Listening = (...values: unknown[]) => void;

/** The part of a socket that a connection uses; it accepts writes at once, on request, or never. */
class FuzzSocket {
  readonly #listeners = new Map<string, Listening>();
  readonly #taken: { readonly bytes: number; readonly done: (() => void) | undefined }[] = [];
  readonly listener = new Listener();
  readonly #mode: 'takes' | 'takes later' | 'never takes';
  writableLength = 0;
  destroyed = false;
  finished = false;
  paused = false;

  constructor(mode: FuzzSocket['mode']) {
    this.#mode = mode;
  }

  get mode(): 'takes' | 'takes later' | 'never takes' {
    return this.#mode;
  }

  on(name: string, listener: Listening): void {
    this.#listeners.set(name, listener);
  }

  once(name: string, listener: Listening): void {
    this.#listeners.set(name, listener);
  }

  emit(name: string, ...values: unknown[]): void {
    this.#listeners.get(name)?.(...values);
  }

  cork(): void {}

  uncork(): void {}

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  write(chunk: Uint8Array, done?: () => void): void {
    if (this.destroyed) return;
    assert.ok(!this.finished, 'written behind the end');
    this.listener.take(chunk);
    this.writableLength += chunk.length;
    this.#taken.push({ bytes: chunk.length, done });
    assert.ok(this.writableLength < MAX_KEPT_BYTES, `${this.writableLength} bytes wait`);
  }

  /** The kernel accepts the writes. */
  flush(): void {
    if (this.#mode === 'never takes') return;
    for (let one = this.#taken.shift(); one !== undefined; one = this.#taken.shift()) {
      this.writableLength -= one.bytes;
      one.done?.();
    }
  }

  end(chunk?: Uint8Array): void {
    if (chunk !== undefined) this.write(chunk);
    this.listener.goAwaySent = true;
    this.finished = true;
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit('close');
  }
}

/** What all sequences share: the clock, the scheduler, and a normal connection. */
class World {
  now = 0;
  readonly #due: (() => void)[] = [];
  readonly scheduler = new TurnScheduler({ now: () => this.now, later: (run) => void this.#due.push(run) });
  readonly #bystander = new FuzzSocket('takes');
  readonly #errors: unknown[] = [];

  constructor() {
    this.connect(this.#bystander, () => {}, this.#errors, '10.0.0.1');
    this.#bystander.emit('data', BEGINNING);
  }

  connect(socket: FuzzSocket, onStream: (stream: Stream) => void, errors: unknown[], address = '10.0.0.9'): Connection {
    return new Connection({
      socket: socket as unknown as Socket,
      info: { peer: 'test', address, secured: undefined },
      scheduler: this.scheduler,
      maxStreams: MAX_STREAMS,
      now: () => this.now,
      onStream,
      onError: (error) => errors.push(error),
      onClose: () => {},
    });
  }

  /** Something is left to do in the next turn of the event loop. */
  get busy(): boolean {
    return this.#due.length > 0;
  }

  /** The next turn of the event loop. */
  turn(): void {
    for (const run of this.#due.splice(0)) run();
  }

  /** The normal connection is answered at once, or in the next turn when this one is used up. */
  serveBystander(): void {
    // Pings are counted.
    this.now += 20;
    const before = this.#bystander.writableLength;
    this.#bystander.emit('data', BYSTANDER_PING);
    if (this.#bystander.writableLength === before) this.turn();
    assert.equal(this.#bystander.writableLength - before, BYSTANDER_PING.length);
    this.#bystander.flush();
  }
}

const DEEDS = ['write', 'write', 'end', 'fail', 'abort', 'pause', 'resume', 'retire', 'nothing', 'take long'] as const;

/** One sequence on its connection. */
class Sequence {
  readonly #random: Random;
  readonly #world: World;
  readonly #socket: FuzzSocket;
  readonly #connection: Connection;
  readonly #errors: unknown[] = [];
  #calls = 0;
  #closedCalls = 0;
  #openCalls = 0;
  #writes = 0;
  #toldWrites = 0;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
    this.#socket = new FuzzSocket(random.of(['takes', 'takes', 'takes later', 'never takes']));
    this.#connection = world.connect(this.#socket, (call) => this.#serve(call), this.#errors);
  }

  #serve(call: Stream): void {
    this.#calls++;
    this.#openCalls++;
    assert.ok(this.#openCalls <= MAX_STREAMS, `${this.#openCalls} streams are open`);
    call.onClose(() => {
      this.#closedCalls++;
      this.#openCalls--;
    });
    const act = (): void => this.#act(call);
    if (this.#random.below(4) > 0) call.read({ data: act, ended: act });
    act();
  }

  #act(call: Stream): void {
    switch (this.#random.of(DEEDS)) {
      case 'write':
        this.#writes++;
        call.write([this.#random.of(CONTENT), this.#random.of(CONTENT)], () => this.#toldWrites++);
        break;
      case 'end':
        call.end();
        break;
      case 'fail':
        call.end(new CtlError('internal', 'no'));
        break;
      case 'abort':
        call.abort();
        break;
      case 'pause':
        call.pause();
        break;
      case 'resume':
        call.resume();
        break;
      case 'retire':
        call.retireConnection();
        break;
      case 'take long':
        this.#world.now += 6;
    }
  }

  run(sequence: FrameSequence): void {
    const bytes = Buffer.concat([BEGINNING, sequence.bytes]);
    const damaged = this.#random.below(8) === 0;
    if (damaged)
      for (let times = this.#random.below(3); times >= 0; times--)
        bytes[this.#random.below(bytes.length)] = this.#random.below(256);
    this.#send(bytes);
    this.#settle();
    if (!damaged) this.#judge(sequence);
    this.#connection.destroy();
    for (const error of this.#errors) assert.ok(error instanceof Http2Error, String(error));
    assert.equal(this.#closedCalls, this.#calls);
    assert.equal(this.#toldWrites, this.#writes);
  }

  /** Sends bytes as a whole, in two pieces, or in very many. */
  #send(bytes: Buffer): void {
    const way = this.#random.below(16);
    const piece = way < 8 ? bytes.length : way < 15 ? 1 + this.#random.below(bytes.length) : 1 + this.#random.below(7);
    // A long payload in tiny pieces tests nothing that its first part does not.
    const end = piece < 8 ? Math.min(bytes.length, 600) : bytes.length;
    for (let at = 0; at < end; at += piece) {
      this.#socket.emit('data', bytes.subarray(at, Math.min(end, at + piece)));
      if (this.#socket.mode === 'takes') this.#socket.flush();
    }
    if (end < bytes.length) this.#socket.emit('data', bytes.subarray(end));
  }

  /** Runs until nothing is scheduled. */
  #settle(): void {
    this.#socket.flush();
    for (let turns = 0; this.#world.busy && !this.#socket.destroyed; turns++) {
      assert.ok(turns < 1000, 'what was left is never read');
      this.#world.turn();
      this.#socket.flush();
    }
  }

  /** The connection has ended by a rule, or still answers; it has not sent more than allowed. */
  #judge({ grants, cut }: FrameSequence): void {
    const { listener } = this.#socket;
    assert.ok(listener.data <= FIRST_WINDOW_BYTES + grants, `${listener.data} bytes of DATA, more than the window`);
    this.#socket.emit('data', frame(FRAME.ping, 0, 0, LAST_PING));
    this.#settle();
    const over = this.#socket.finished || this.#socket.destroyed;
    // An incomplete frame takes the bytes of the ping for its own.
    if (!over && !cut) assert.equal(listener.answeredLast, 1, 'the last ping is not answered');
  }
}

const STACK_LINES = Error.stackTraceLimit;
const sequences = new FrameSequences(new Random(SEED));

function runSequence(world: World, index: number): void {
  const random = new Random(SEED + index);
  const sequence = sequences.make(random, MAX_FRAMES);
  // Most sequences end in an error of the protocol. The stacks of so many errors take a sixth of the time.
  Error.stackTraceLimit = 0;
  try {
    new Sequence(world, random).run(sequence);
  } catch (error) {
    throw new Error(`sequence ${index}: ${sequence.bytes.toString('hex').slice(0, 2000)}`, { cause: error });
  } finally {
    Error.stackTraceLimit = STACK_LINES;
  }
}

for (let part = 0; part < PARTS; part++)
  test(`sequences of frames, part ${part + 1} of ${PARTS}`, () => {
    const world = new World();
    const each = SEQUENCES / PARTS;
    for (let index = part * each; index < (part + 1) * each; index++) {
      runSequence(world, index);
      world.serveBystander();
      if (index % 100 === 0) world.turn();
    }
  });
