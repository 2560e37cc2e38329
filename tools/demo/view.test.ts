import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placesOf, SAMPLE_BASE } from './ports.ts';
import type { MeshState, ProxyState } from './state.ts';
import { changedLines, coloured, cutLine, hintLines, plain, redraw, viewLines } from './view.ts';

const GATEWAY: ProxyState = {
  workload: 'gateway.demo',
  protocol: 'sotw',
  sync: 'synced',
  held: { clusters: 12, listeners: 1, routes: 1, endpoints: 4 },
};
const GONE: ProxyState = { workload: 'shop.demo', protocol: undefined, sync: 'not connected' };

function state(parts: Partial<MeshState> = {}): MeshState {
  return { proxies: [GATEWAY, GONE], convergence: { count: 0, sum: 0 }, problems: [], ...parts };
}

test('proxies are in a table, with a dash for an unknown value', () => {
  assert.deepEqual(viewLines({ state: state() }, plain), [
    'PROXY         PROTOCOL  STATE          CLUSTERS  LISTENERS  ROUTES  ENDPOINTS',
    'gateway.demo  SotW      synced               12          1       1          4',
    'shop.demo     -         not connected         -          -       -          -',
    '',
    'last push none yet',
    'problems  none',
  ]);
});

test('the last push has its time, number of proxies and duration', () => {
  const at = new Date(2024, 0, 2, 3, 4, 5);
  const line = (proxies: number) =>
    viewLines({ state: state(), lastPush: { at, proxies, seconds: 0.1234 } }, plain).find((text) =>
      text.startsWith('last push'),
    );
  assert.equal(line(3), 'last push 03:04:05  3 proxies in 123 ms, from the change on disk to the acknowledgement');
  assert.match(line(1) ?? '', /1 proxy in/);
});

test('traffic is shown in shares of the last requests', () => {
  const shares = new Map([
    ['hello-v1', 75],
    ['status 503', 25],
  ]);
  const lines = viewLines({ state: state(), traffic: shares }, plain);
  assert.ok(lines.includes('traffic   hello-v1 75 %   status 503 25 %   (the last 100 requests for /hello)'));
  assert.ok(viewLines({ state: state(), traffic: new Map() }, plain).includes('traffic   none yet'));
});

test('problems and rejections have one line each', () => {
  const rejected: ProxyState = { ...GATEWAY, sync: 'rejected', rejection: 'bad\n  listener' };
  const lines = viewLines({ state: state({ proxies: [rejected], problems: ['a.yaml:3: one\ntwo', 'b'] }) }, plain);
  assert.deepEqual(lines.slice(3), [
    'rejected  gateway.demo: bad listener',
    'last push none yet',
    'problem   a.yaml:3: one two',
    'problem   b',
  ]);
});

test('colours do not change the text', () => {
  const view = { state: state({ problems: ['x'] }), traffic: new Map([['a', 1]]) };
  const painted = viewLines(view, coloured);
  assert.ok(painted.some((line) => line.includes('\x1b[')));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
  const bare = painted.map((line) => line.replace(/\x1b\[\d+m/g, ''));
  assert.deepEqual(bare, viewLines(view, plain));
});

test('hints name addresses', () => {
  const hints = { places: placesOf(SAMPLE_BASE), folder: 'samples/demo', user: '/tmp/user' };
  const lines = hintLines(
    { ...hints, redirected: { netns: 'meshd-1-orders', url: 'http://stock.demo:18082/' } },
    plain,
  );
  assert.ok(lines.some((line) => line.includes('ip netns exec meshd-1-orders curl http://stock.demo:18082/')));
  const without = hintLines({ ...hints, redirected: { unavailable: 'needs root' } }, plain);
  assert.ok(without.some((line) => line.includes('(no redirection: needs root)')));
  assert.ok(lines.some((line) => line.startsWith('try       curl http://127.0.0.1:18080/hello ')));
  assert.ok(lines.some((line) => line.startsWith('edit      samples/demo/gateway-routes.yaml ')));
});

test('the whole view fits into 24 rows, the cursor in the last one', () => {
  const proxies = Array.from({ length: 5 }, () => GATEWAY);
  const view = viewLines({ state: state({ proxies }), traffic: new Map([['a', 1]]) }, plain);
  const redirected = { netns: 'meshd-1-orders', url: 'http://stock.demo:18082/' };
  const places = placesOf(SAMPLE_BASE);
  const hints = hintLines({ places, folder: 'samples/demo', user: '/tmp/user', redirected }, plain);
  assert.ok(view.length + 1 + hints.length < 24, `${view.length} and ${hints.length}`);
});

test('only new lines are printed', () => {
  assert.deepEqual(changedLines([], ['a', '', 'b']), ['a', 'b']);
  assert.deepEqual(changedLines(['a', 'b'], ['a', 'c', '']), ['c']);
});

test('a redraw replaces the previous lines and fits the terminal', () => {
  const size = { columns: 5, rows: 3 };
  assert.equal(redraw(0, ['one', 'longer'], size), '\r\x1b[Jone\nlonge\n');
  assert.equal(redraw(2, ['1', '2', '3'], size), '\x1b[2A\r\x1b[J1\n2\n');
});

test('a cut line keeps the end of its colours', () => {
  assert.equal(cutLine('\x1b[31mabcdef\x1b[39m', 3), '\x1b[31mabc\x1b[39m');
  assert.equal(cutLine('abc', 3), 'abc');
});
