import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AnyResource, documentLimits, keyOf, parseResource, type ResourceKey } from '../resources/index.ts';
import { EXCHANGED_KINDS } from './kinds.ts';
import { ServedDocuments } from './served-documents.ts';

const LIMITS = documentLimits(1, true, 'mesh-system');
const ROUTES = EXCHANGED_KINDS.find(({ kind }) => kind === 'VirtualService');

function route(name: string, host: string): AnyResource {
  const spec = { hosts: [host], http: [{ redirect: { uri: '/' } }] };
  const metadata = { name, namespace: 'shop' };
  const raw = { apiVersion: 'networking.istio.io/v1', kind: 'VirtualService', metadata, spec };
  const parsed = parseResource(raw, { source: 'test' }, () => undefined, { limits: LIMITS });
  assert.ok('resource' in parsed);
  return parsed.resource;
}

test('many documents are encoded over several turns, with what changes meanwhile, and then announced', () => {
  const documents = new Map<ResourceKey, AnyResource>();
  const [turns, timers, announced]: [(() => void)[], (() => void)[], string[]] = [[], [], []];
  let now = 0;
  const served = new ServedDocuments({
    read: (key) => documents.get(key),
    delayMs: 10,
    clock: {
      // Each document takes 4 ms.
      now: () => (now += 4),
      setTimer: (_ms, run) => {
        timers.push(run);
        return { cancel: () => {} };
      },
    },
    soon: (run) => void turns.push(run),
    onLeftOut: () => assert.fail(),
  });
  served.onChange((kinds) => void announced.push([...kinds].join()));
  const set = (document: AnyResource) => {
    documents.set(keyOf(document), document);
    served.changed([keyOf(document)]);
  };
  for (let index = 0; index < 12; index++) set(route(`r${index}`, 'a.example.com'));
  assert.equal(served.of(ROUTES), undefined);
  assert.equal(served.of(ROUTES), undefined, 'while it is encoded');
  assert.equal(turns.length, 1);
  turns.shift()?.();
  set(route('r0', 'b.example.com'));
  set(route('new', 'a.example.com'));
  assert.deepEqual(announced, []);
  for (let turn = turns.shift(); turn !== undefined; turn = turns.shift()) turn();
  assert.deepEqual(announced, ['VirtualService']);
  const found = served.of(ROUTES);
  assert.equal(found?.documents.size, 13);
  assert.equal(found?.documents.get('shop/r0')?.version, documents.get('VirtualService/shop/r0')?.fingerprint);
  // The changes are announced as always.
  for (const run of timers) run();
  assert.deepEqual(announced, ['VirtualService', 'VirtualService']);
  assert.equal(served.of(ROUTES), found);
});

test('a document that cannot be encoded is left out, and the others are served', () => {
  const broken = route('broken', 'a.example.com');
  Object.defineProperty(broken, 'content', { get: () => assert.fail('not to be read') });
  const documents = new Map([broken, route('good', 'a.example.com')].map((each) => [keyOf(each), each] as const));
  const leftOut: string[] = [];
  const served = new ServedDocuments({
    read: (key) => documents.get(key),
    delayMs: 10,
    clock: { now: () => 0, setTimer: () => ({ cancel: () => {} }) },
    onLeftOut: (key, why) => void leftOut.push(`${key}: ${why}`),
  });
  served.changed(documents.keys());
  assert.deepEqual([...(served.of(ROUTES)?.documents.keys() ?? [])], ['shop/good']);
  assert.match(leftOut.join(), /^VirtualService\/shop\/broken: .*not to be read/);
});
