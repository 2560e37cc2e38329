/** A log of requests in several protocols, and edits between them: the same one for the same seed. */
import * as fc from '../../../src/core/testing/properties.ts';
import { type Document, resource } from './config.ts';
import { destination, SUFFIX, serviceAt, V1, V2 } from './on-demand-mesh.ts';
import { HTTP_PORT } from './versions.ts';

export interface Sent {
  readonly protocol: 'http1' | 'http2' | 'websocket' | 'grpc' | 'tcp' | 'tls';
  readonly host: string;
  readonly path: string;
  /** Length of its body. */
  readonly bytes: number;
}

export interface Edit {
  /** Of the log, from 1. */
  readonly number: number;
  /** All documents that are in force from now on. */
  readonly documents: readonly Document[];
}

export interface LogOptions {
  /** Services that are edited; in the beginning none exists. */
  readonly services: readonly string[];
  readonly seed: number;
  readonly entries: number;
}

/** The names of a service that a client may use, and one of no service. */
const NAMES = [
  (name: string) => name,
  (name: string) => `${name}.default`,
  (name: string) => `${name}.default.svc`,
  (name: string) => `${name}.${SUFFIX}`,
  (name: string) => `${name}.${SUFFIX}:${HTTP_PORT}`,
  (name: string) => name.toUpperCase(),
  (name: string) => `${name}.default:1234`,
  (name: string) => `${name}.nowhere.example`,
];

const PATHS = ['/', '/here', '/here/there', '/other', '/?status=404', '/?status=503'];

/** Rules for requests of a service; those without one go to the service itself. */
const RULES: Readonly<Record<string, (other: string) => readonly Document[]>> = {
  moved: (other) => [{ route: [{ destination: destination(other) }] }],
  'moved in part': (other) => [
    { match: [{ uri: { prefix: '/here' } }], route: [{ destination: destination(other) }] },
    { match: [{ uri: { exact: '/other' } }], redirect: { authority: other } },
    { route: [{ destination: destination('part-1') }] },
  ],
  redirected: (other) => [{ redirect: { authority: other, uri: '/elsewhere' } }],
  refused: (other) => [
    { fault: { abort: { httpStatus: 418, percentage: { value: 100 } } }, route: [{ destination: destination(other) }] },
  ],
  mirrored: (other) => [{ route: [{ destination: destination('part-2') }], mirror: destination(other) }],
  weighted: (other) => [
    {
      route: [
        { destination: destination(other), weight: 100 },
        { destination: destination('copies'), weight: 0 },
      ],
    },
  ],
  'without a route for some': (other) => [
    { match: [{ uri: { prefix: '/here' } }], route: [{ destination: destination(other) }] },
  ],
  'to nowhere': () => [{ route: [{ destination: destination('missing') }] }],
};

type Step =
  | { readonly kind: 'sent'; readonly sent: Sent }
  | { readonly kind: 'service' | 'rule'; readonly name: string; readonly other: string; readonly rule: string };

function stepsOf(services: readonly string[]): fc.Arbitrary<Step> {
  const service = fc.constantFrom(...services);
  const host = fc.tuple(service, fc.constantFrom(...NAMES)).map(([name, form]) => form(name));
  const plain = fc.record({ host, path: fc.constantFrom(...PATHS), bytes: fc.constantFrom(0, 0, 0, 30_000) });
  const http = fc
    .tuple(plain, fc.constantFrom('http1', 'http1', 'http1', 'http2', 'websocket'))
    .map(([sent, protocol]): Sent => ({ ...sent, protocol: protocol as Sent['protocol'] }));
  const of = (protocol: Sent['protocol'], ...hosts: readonly string[]) =>
    fc.constantFrom(...hosts).map((name): Sent => ({ protocol, host: name, path: '/', bytes: 0 }));
  const others = fc.oneof(
    of('grpc', 'unary', 'stream.default', `unary.${SUFFIX}:${HTTP_PORT}`),
    of('tcp', 'tcp-a'),
    of('tls', 'tls-a.example', 'tls-b.example', 'tls-c.example'),
  );
  const sent = fc.oneof({ weight: 10, arbitrary: http }, { weight: 1, arbitrary: others });
  const edits = fc.record({
    kind: fc.constantFrom('service' as const, 'rule' as const, 'rule' as const),
    name: service,
    other: service,
    rule: fc.constantFrom('', ...Object.keys(RULES)),
  });
  return fc.oneof(
    { weight: 16, arbitrary: sent.map((each): Step => ({ kind: 'sent', sent: each })) },
    { weight: 1, arbitrary: edits },
  );
}

/** The log begins with an edit that creates the services. */
export function trafficLog({ services, seed, entries }: LogOptions): readonly (Sent | Edit)[] {
  const existing = new Map(services.map((name, index) => [name, serviceAt(name, index % 2 === 0 ? V1 : V2)]));
  const deleted = new Map<string, Document[]>();
  const rules = new Map<string, Document>();
  let number = 0;
  const edit = (): Edit => ({ number: ++number, documents: [...[...existing.values()].flat(), ...rules.values()] });
  const log: (Sent | Edit)[] = [edit()];
  for (const step of fc.sample(stepsOf(services), { seed, numRuns: entries })) {
    if (step.kind === 'sent') {
      log.push(step.sent);
      continue;
    }
    const { kind, name, other, rule } = step;
    if (kind === 'service') {
      const [from, to] = existing.has(name) ? [existing, deleted] : [deleted, existing];
      to.set(name, from.get(name) ?? []);
      from.delete(name);
    } else {
      const http = RULES[rule]?.(other);
      if (http === undefined) rules.delete(name);
      else rules.set(name, resource('VirtualService', name, { hosts: [name], http }));
    }
    log.push(edit());
  }
  return log;
}
