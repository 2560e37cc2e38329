/**
 * A thousand agents that have the names of the mesh, in a process of its own: streams with the node of a sidecar whose
 * agent answers DNS, which subscribe to the names, acknowledge them and count their bytes.
 */
import { writeRequest } from '../../src/agent/xds-proxy/messages.ts';
import { NAME_PIECES_METADATA } from '../../src/core/proxy.ts';
import { XDS } from '../../src/core/xds-types.ts';
import { encodeFields, VarintDecoder } from '../../src/protobuf/wire/index.ts';
import { LARGE_WINDOW } from '../client/frames.ts';
import { GrpcStream } from '../client/grpc-stream.ts';
import { encodeNode, sidecarNode } from '../client/node.ts';
import { DELTA_PATH } from '../client/proxy.ts';
import { monotonicMs } from '../world/clock.ts';
import type { AgentsCommand, AgentsResult } from './messages.ts';
import { namespaceOf } from './names.ts';

const typeUrl = XDS.nds.url;
const PREFIX_BYTES = 5;
/** A response begins with its type, nonce and version. */
const HEAD_BYTES = 512;

const decoder = new VarintDecoder();

/** Field 5 of a response, which stands before the resources. */
function nonceIn(head: Buffer): string {
  for (let at = 0; at < head.length; ) {
    const tag = head[at] ?? 0;
    at = decoder.read(head, at + 1, head.length);
    const end = at + decoder.value;
    if (tag === (5 << 3) + 2) return head.toString('utf8', at, end);
    at = end;
  }
  throw new Error('a response without a nonce before its resources');
}

class Agent {
  responses = 0;
  bytes = 0;
  /** Monotonic ms of the last response. */
  at = 0;
  readonly #changed: () => void;
  readonly #stream: GrpcStream;
  /** The first bytes of the current message with its prefix, how many were seen, and how many there are. */
  #head = Buffer.alloc(0);
  #seen = 0;
  #length = 0;

  constructor(index: number, { port, pieces }: Extract<AgentsCommand, { op: 'open' }>, changed: () => void) {
    this.#changed = changed;
    this.#stream = new GrpcStream({
      port,
      path: DELTA_PATH,
      window: LARGE_WINDOW,
      data: (piece) => this.#read(piece),
      closed: (reason) => {
        throw new Error(`an agent has lost its stream: ${reason}`);
      },
    });
    const sidecar = { ...sidecarNode({ index, namespace: namespaceOf(index), content: 'mtls' }), dnsAgent: true };
    const env = pieces ? sidecar.env : { ...sidecar.env, [`MESH_META_${NAME_PIECES_METADATA}`]: 'false' };
    const node = Buffer.concat(encodeNode({ ...sidecar, env }));
    this.#stream.send([encodeFields([[1, node]]), writeRequest('delta', { typeUrl })]);
  }

  /** Keeps the head of a message and counts the rest: all of them together are gigabytes. */
  #read(piece: Buffer): void {
    for (let rest = piece; rest.length > 0; ) {
      const wanted = this.#seen < PREFIX_BYTES ? PREFIX_BYTES - this.#seen : this.#length - this.#seen;
      const part = rest.subarray(0, wanted);
      rest = rest.subarray(part.length);
      this.#seen += part.length;
      if (this.#head.length < HEAD_BYTES)
        this.#head = Buffer.concat([this.#head, part.subarray(0, HEAD_BYTES - this.#head.length)]);
      if (this.#seen === PREFIX_BYTES) this.#length = PREFIX_BYTES + this.#head.readUInt32BE(1);
      if (this.#seen >= PREFIX_BYTES && this.#seen === this.#length) this.#received();
    }
  }

  #received(): void {
    const nonce = nonceIn(this.#head.subarray(PREFIX_BYTES));
    this.responses++;
    this.bytes += this.#length;
    this.at = monotonicMs();
    this.#head = Buffer.alloc(0);
    this.#seen = 0;
    this.#stream.send([writeRequest('delta', { typeUrl, nonce })]);
    this.#changed();
  }
}

let agents: readonly Agent[] = [];
/** Called when some agent has received a response. */
let changed = (): void => undefined;

/** Resolves when every agent has so many responses. */
function received(responses: number): Promise<void> {
  return new Promise((resolve) => {
    changed = () => {
      if (agents.every((agent) => agent.responses >= responses)) resolve();
    };
    changed();
  });
}

async function run(command: AgentsCommand): Promise<AgentsResult> {
  if (command.op === 'open')
    agents = Array.from({ length: command.count }, (_, index) => new Agent(index, command, () => changed()));
  await received(command.responses);
  const bytes = agents.reduce((sum, agent) => sum + agent.bytes, 0);
  return { bytes, at: agents.map((agent) => agent.at) };
}

process.on('message', (command: AgentsCommand) => {
  void run(command).then((result) => process.send?.(result));
});
process.on('disconnect', () => process.exit(0));
