/**
 * Where everything in the demo listens. The sample files name ports of the form 180xx; a copy of them can be moved to
 * another base, so that several demos run side by side, or beside whatever has those ports already.
 */
import { createServer, type Server } from 'node:net';
import type { Owner } from '../../test/harness/index.ts';

/** Base of the ports in `samples/demo`: each is this plus a number below 100. */
export const SAMPLE_BASE = 18_000;

/**
 * Bases tried when the samples' own is taken: below the range from which Linux picks ports of outgoing connections, and
 * apart from the ports that tests take one by one (`freePorts`), which could take one of a base between the look and
 * its use.
 */
const OTHER_BASES = { from: 20_000, to: 24_000, step: 100 };

/** A socket of the demo, and what it is for, in the words of a message. */
export interface Place {
  readonly what: string;
  readonly address: string;
  readonly port: number;
}

const at = (base: number) => (what: string, address: string, offset: number) => ({
  what,
  address,
  port: base + offset,
});

/** Everything the demo listens on, for a base. The addresses and offsets are those of the sample files. */
export function placesOf(base: number) {
  const place = at(base);
  return {
    gateway: place('the gateway', '127.0.0.1', 80),
    helloSidecar: place('the sidecar of hello-v1', '127.0.11.1', 81),
    shopSidecar: place('the sidecar of shop', '127.0.13.1', 81),
    /** Where the application `shop` reaches other services through its sidecar. */
    shopOutbound: place('calls of shop', '127.0.13.1', 82),
    helloV1: place('the application hello-v1', '127.0.0.1', 91),
    helloV2: place('the application hello-v2', '127.0.12.1', 81),
    shop: place('the application shop', '127.0.0.1', 92),
    clock: place('the application clock', '127.0.14.1', 93),
    keys: place('the keys of end users', '127.0.0.1', 94),
    gatewayAdmin: place("the gateway's admin page", '127.0.0.1', 95),
    helloAdmin: place('the admin page of hello-v1', '127.0.0.1', 96),
    shopAdmin: place('the admin page of shop', '127.0.0.1', 97),
    grpc: place('ctl-discovery: gRPC', '127.0.0.1', 84),
    http: place('ctl-discovery: HTTP', '127.0.0.1', 85),
    monitoring: place('ctl-discovery: metrics', '127.0.0.1', 86),
    introspection: place('ctl-discovery: introspection', '127.0.0.1', 87),
    secure: place('ctl-discovery: gRPC over TLS', '127.0.0.1', 88),
    // What agents serve beside Envoy's listeners: metrics of all (15020 by default), readiness (15021), Envoy's metrics
    // (15090).
    gatewayStatus: place('the agent of the gateway: metrics', '127.0.0.1', 60),
    gatewayReadiness: place('the agent of the gateway: readiness', '127.0.0.1', 61),
    gatewayPrometheus: place("the gateway's metrics", '127.0.0.1', 62),
    helloStatus: place('the agent of hello-v1: metrics', '127.0.0.1', 63),
    helloReadiness: place('the agent of hello-v1: readiness', '127.0.0.1', 64),
    helloPrometheus: place('the metrics of hello-v1', '127.0.0.1', 65),
    shopStatus: place('the agent of shop: metrics', '127.0.0.1', 66),
    shopReadiness: place('the agent of shop: readiness', '127.0.0.1', 67),
    shopPrometheus: place('the metrics of shop', '127.0.0.1', 68),
  } as const satisfies Record<string, Place>;
}

export type Places = Readonly<Record<keyof ReturnType<typeof placesOf>, Place>>;

/** The ports that ctl-discovery has by default; nothing in the sample files depends on them. */
const STANDARD_PORTS = { grpc: 15_010, secure: 15_012, http: 8080, monitoring: 15_014, introspection: 9876 } as const;

/** Held for as long as a demo runs, so that two that start together do not choose the same base. */
const HOLD_OFFSET = 99;

/** A port that is in use; one line for the user. */
export class PortTaken extends Error {
  constructor(place: Place) {
    super(`${place.address}:${place.port} (${place.what}) is in use`);
  }
}

async function listen(place: Place): Promise<Server> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'EADDRINUSE' ? new PortTaken(place) : error);
    });
    server.listen(place.port, place.address, resolve);
  });
  return server;
}

const close = (server: Server) => new Promise<void>((resolve) => server.close(() => resolve()));

async function assertFree(place: Place): Promise<void> {
  await close(await listen(place));
}

/** Claims a base for its owner, or throws {@link PortTaken} naming the first place that is in use. */
async function claimBase(owner: Owner, base: number): Promise<Places> {
  const hold = await listen(at(base)('another demo', '127.0.0.1', HOLD_OFFSET));
  try {
    const places = placesOf(base);
    for (const place of Object.values(places)) await assertFree(place);
    owner.after(() => close(hold));
    return places;
  } catch (error) {
    await close(hold);
    throw error;
  }
}

/** Places at the samples' ports; ctl-discovery has its standard ports where they are free. */
export async function samplePlaces(owner: Owner): Promise<Places> {
  const places: Record<keyof Places, Place> = { ...(await claimBase(owner, SAMPLE_BASE)) };
  for (const [name, port] of Object.entries(STANDARD_PORTS) as [keyof typeof STANDARD_PORTS, number][]) {
    const standard = { ...places[name], port };
    const free = await assertFree(standard).then(
      () => true,
      () => false,
    );
    if (free) places[name] = standard;
  }
  return places;
}

/** Places at the samples' ports if all are free, else at the first base where all are. */
export async function freePlaces(owner: Owner): Promise<{ readonly base: number; readonly places: Places }> {
  let taken: unknown;
  for (const base of [SAMPLE_BASE, ...otherBases()]) {
    try {
      return { base, places: await claimBase(owner, base) };
    } catch (error) {
      if (!(error instanceof PortTaken)) throw error;
      taken ??= error;
    }
  }
  throw taken;
}

function* otherBases(): Generator<number> {
  for (let base = OTHER_BASES.from; base < OTHER_BASES.to; base += OTHER_BASES.step) yield base;
}
