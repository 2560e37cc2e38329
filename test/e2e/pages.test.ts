/** The pages of the introspection address in a real browser, with 1,000 simulated proxies (not Envoys). */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { type Browser, browserUnavailable, startBrowser } from '../harness/browser.ts';
import { type Discovery, programFile, startDiscovery, tempDir } from '../harness/index.ts';
import { SimProxy } from '../harness/sim-proxy.ts';
import { type ConfigDir, configDir, endpoints, resource, service } from './support/config.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const PROXIES = 1000;
const REJECTION = 'Error adding/updating listener(s) 0.0.0.0_80: duplicate listener 0.0.0.0_80 found';

interface Started {
  readonly config: ConfigDir;
  readonly discovery: Discovery;
  readonly browser: Browser;
}

const unavailable = browserUnavailable();
const options = unavailable === undefined ? {} : { skip: unavailable };
const owner = suiteOwner();
const shared = lazy<Started>();
const page = () => shared.get().browser.page;

const ports = [{ name: 'http', port: 80, targetPort: 8080 }];
const webEndpoints = (...addresses: string[]) => endpoints('web', addresses, [{ name: 'http', port: 8080 }]);

async function writeConfig(config: ConfigDir): Promise<void> {
  await config.apply('web', service('web', { clusterIP: '10.96.0.1', ports }), webEndpoints('10.0.1.1'));
  await config.apply('shop', service('shop', { clusterIP: '10.96.0.2', ports, namespace: 'shop' }));
  const route = { route: [{ destination: { host: 'web.default.svc.cluster.local' } }] };
  await config.apply('route', resource('VirtualService', 'web', { hosts: ['web'], http: [route] }));
  await config.apply('wrong', resource('VirtualService', 'wrong', { hosts: ['web'], htp: [route] }, 'shop'));
}

function connectProxies(port: number): void {
  for (let index = 0; index < PROXIES; index++) {
    const [namespace, address] = [index % 10 === 0 ? 'shop' : 'default', `10.1.${index >> 8}.${index & 255}`];
    const id = `sidecar~${address}~pod-${index}.${namespace}~${namespace}.svc.cluster.local`;
    const rejects = index === 7 ? { rejects: { lds: REJECTION } } : {};
    const proxy = new SimProxy({ port, mode: 'delta', id, metadata: { ISTIO_VERSION: '1.7.8' }, ...rejects });
    owner.after(() => proxy.close());
    proxy.connect();
  }
}

before(async () => {
  if (unavailable !== undefined) return;
  const config = configDir(await tempDir(owner));
  await writeConfig(config);
  const flags = ['--log_output_level', 'default:info,ads:error'];
  const discovery = await startDiscovery(owner, { configDir: config.path, flags });
  connectProxies(discovery.ports.grpc);
  const browser = await startBrowser(owner, `http://localhost:${discovery.ports.introspection}`);
  shared.set({ config, discovery, browser });
});

/** Asserts that the page has this text, now or soon. */
async function shows(text: string | RegExp): Promise<void> {
  const found = page().getByText(text).first();
  await found.waitFor({ timeout: 30_000 });
}

/** No violation of an accessibility rule, and nothing is wider than the page. Keeps a picture. */
async function looksGood(name: string): Promise<void> {
  const { browser } = shared.get();
  assert.deepEqual(await browser.violations(), [], name);
  await browser.screenshot(name);
  const wider = await page().evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
  assert.equal(wider, 0, `${name} is wider than its page`);
}

/** The same in the dark, and on a narrow screen. */
async function looksGoodEverywhere(name: string): Promise<void> {
  await looksGood(`${name}-1280-light`);
  await page().emulateMedia({ colorScheme: 'dark' });
  await page().setViewportSize({ width: 390, height: 800 });
  await looksGood(`${name}-390-dark`);
  await page().emulateMedia({ colorScheme: 'light' });
  await page().setViewportSize({ width: 1280, height: 800 });
}

test('the overview counts the proxies by state, and follows a change', options, async () => {
  const { config } = shared.get();
  await page().goto('/');
  const tile = (text: string) => page().getByRole('link', { name: text });
  await tile('999 in sync').waitFor({ timeout: 60_000 });
  await tile('1 rejecting').waitFor();
  await tile('1 document refused').waitFor();
  await looksGoodEverywhere('overview');
  await config.apply('wrong');
  await tile('1 document refused').waitFor({ state: 'detached' });
});

test('proxies are found by a search that is in the address, with what one rejects in its words', options, async () => {
  await page().goto('/');
  await page().getByRole('link', { name: '1 rejecting' }).click();
  await shows('pod-7.default');
  await shows(REJECTION);
  assert.equal(new URL(page().url()).searchParams.get('state'), 'REJECTED');
  await looksGoodEverywhere('proxies-rejected');
  await page().getByLabel('State').selectOption('');
  await page().getByLabel('Search').fill('pod-99');
  await shows('1–11 of 11');
  assert.equal(new URL(page().url()).searchParams.get('search'), 'pod-99');
  await page().reload();
  await shows('1–11 of 11');
  await page().getByLabel('Search').fill('');
  await shows('1–100 of 1,000');
  await page().getByRole('button', { name: 'Next' }).click();
  await shows('101–200 of 1,000');
  await looksGoodEverywhere('proxies');
});

test('a change appears among the pushes, with its cause and the proxies that it reached', options, async () => {
  const { config } = shared.get();
  await page().goto('/pushes');
  await config.apply('web', service('web', { clusterIP: '10.96.0.1', ports }), webEndpoints('10.0.1.1', '10.0.1.2'));
  const push = page().getByRole('listitem').filter({ hasText: 'Endpoints/default/web' });
  await push.getByText('1,000 proxies').waitFor({ timeout: 60_000 });
  await push.getByText('endpoint', { exact: true }).waitFor();
  await looksGoodEverywhere('pushes');
});

test('one proxy leads from its listeners to endpoints, and to the documents that made them', options, async () => {
  await page().goto('/proxies?search=pod-12.');
  await page().getByRole('link', { name: 'pod-12.default' }).click();
  await page().getByRole('heading', { name: 'pod-12.default' }).waitFor();
  await looksGoodEverywhere('proxy');
  await page()
    .getByRole('link', { name: /^routes/ })
    .click();
  await page().getByRole('link', { name: '80', exact: true }).click();
  await shows('Service/default/web');
  await shows(/web\.yaml:1/);
  await looksGoodEverywhere('proxy-route');
  await page().getByRole('link', { name: 'outbound|80||web.default.svc.cluster.local' }).first().click();
  await shows('connect_timeout');
  await page().getByRole('link', { name: 'outbound|80||web.default.svc.cluster.local' }).first().click();
  await shows('10.0.1.2');
});

test('two proxies are compared, and a difference is shown by field', options, async () => {
  await page()
    .getByRole('link', { name: /^listeners/ })
    .click();
  await page().getByLabel('Proxy', { exact: true }).fill('pod-13.default');
  await page().getByRole('button', { name: 'Compare' }).click();
  await shows('Only here: ');
  await looksGoodEverywhere('proxy-difference');
});

test('a proxy is compared with the dump of its Envoy, which stays in the browser', options, async () => {
  const { discovery } = shared.get();
  // Instead of a dump of an Envoy, that of the control plane with one field changed.
  const { body } = await discovery.http('/debug/config_dump?proxyID=pod-12.default');
  const dump = (text: string) => ({ name: 'dump.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  await page().goto('/proxy?id=pod-12.default');
  await page().getByLabel('Compare with').selectOption('what its Envoy has');
  const file = page().getByLabel('Configuration dump');
  await file.setInputFiles(dump(body));
  await shows('Envoy has what it should have.');
  await file.setInputFiles(dump(body.replaceAll('"connect_timeout": "10s"', '"connect_timeout": "9s"')));
  await shows('connectTimeout');
  await looksGoodEverywhere('proxy-envoy');
  await file.setInputFiles(dump('[]'));
  await shows('dump.json: expected a config_dump');
});

test('configuration shows documents as YAML, and refused ones with file and line', options, async () => {
  const { config } = shared.get();
  await page().goto('/configuration');
  await page().getByText('VirtualService/default/web', { exact: true }).click();
  await shows('host: web.default.svc.cluster.local');
  await looksGoodEverywhere('configuration');
  await page().getByLabel('Name', { exact: true }).fill('nothing');
  await shows('No document matches');
  await config.apply('wrong', resource('VirtualService', 'wrong', { hosts: ['web'] }, 'shop'));
  await page().getByRole('link', { name: 'Refused' }).click();
  await shows(/wrong\.yaml:\d/);
  await looksGoodEverywhere('configuration-refused');
  await page().getByRole('link', { name: 'Findings' }).click();
  await shows('No name is claimed twice.');
  await page().getByRole('link', { name: 'Sources' }).click();
  await shows('current');
});

test('the way of a request is shown, with the documents behind it', options, async () => {
  await page().goto('/why');
  await page().getByLabel('From proxy').fill('pod-12.default');
  await page().getByLabel('To', { exact: true }).fill('web:80/');
  await page().getByRole('button', { name: 'Show the way' }).click();
  await page().getByRole('link', { name: 'outbound|80||web.default.svc.cluster.local' }).waitFor();
  await shows('virtual host web.default.svc.cluster.local:80');
  await looksGoodEverywhere('why');
});

test('events are followed, filtered and paused', options, async () => {
  const { config } = shared.get();
  await page().goto('/events');
  await page().getByLabel('From level').selectOption('error');
  await page().getByLabel('Search').fill('validation');
  await shows(/VirtualService\/shop\/wrong: spec/);
  await looksGoodEverywhere('events');
  await page().getByRole('button', { name: 'Pause' }).click();
  await config.apply('other', resource('VirtualService', 'other', { hosts: ['web'] }, 'shop'));
  await page().getByRole('button', { name: 'Continue' }).click();
  await shows(/VirtualService\/shop\/other: spec/);
});

test('a log level is changed, and put back to its default', options, async () => {
  await page().goto('/scopez/');
  await page().getByLabel('Level of ads', { exact: true }).selectOption('debug');
  const back = page().getByRole('button', { name: 'Back to error for ads' });
  await back.waitFor();
  await looksGoodEverywhere('logs');
  await back.click();
  await back.waitFor({ state: 'detached' });
  assert.equal(await page().getByLabel('Level of ads', { exact: true }).inputValue(), 'error');
});

test('every page of the process is shown', options, async () => {
  await page().goto('/procz');
  for (const title of ['Memory', 'Flags', 'Variables', 'Arguments', 'Version', 'Metrics', 'Signals', 'Process']) {
    await page().getByRole('navigation', { name: 'Process' }).getByText(title).click();
    await page().getByRole('heading', { name: title }).waitFor();
    await page().getByRole('region', { name: title }).waitFor();
    await looksGood(`process-${title.toLowerCase()}`);
  }
});

/** A click on a link, a button or a summary of this name; or a text that is typed, which is no click. */
type Step = string | { readonly field: string; readonly text: string };

/** By question of docs/questions.md: the way from the overview, what the page shows then, and what the command prints. */
const QUESTIONS: Readonly<Record<string, readonly [steps: readonly Step[], shown: RegExp, printed: RegExp]>> = {
  'Which proxies lag?': [['unacknowledged'], /No proxy matches/, /pod-7\.default .* REJECTED/],
  'Which proxy rejects what, and what does Envoy say?': [['rejecting'], /duplicate listener/, /duplicate listener/],
  'Why did the last push happen?': [['Pushes'], /Endpoints\/default\/web/, /Endpoints\/default\/web/],
  'How long do changes take?': [[], /Convergence/, /"convergenceP99"/],
  'Which document made the route that a request takes?': [
    ['Why', { field: 'From proxy', text: 'pod-12.default' }, { field: 'To', text: 'web:80/' }, 'Show the way'],
    /VirtualService\/default\/web/,
    /VirtualService\/default\/web .*route\.yaml:\d/,
  ],
  'What is refused, in which file and line?': [['documents? refused'], /wrong\.yaml:\d/, /wrong\.yaml/],
  'Which proxies does a document affect?': [
    ['Configuration', 'VirtualService/default/web', 'Proxies that it affects'],
    /pod-12\.default/,
    /pod-12\.default/,
  ],
  'What should a proxy have?': [['Proxies', 'pod-0.shop'], /listeners/, /web\.default\.svc\.cluster\.local/],
  'What does its Envoy have otherwise?': [['Proxies', 'pod-1.default'], /Compare with/, /web\.default.*differ/],
  'What would a change do?': [[], /Overview/, /1,?000 of 1,?000/],
  'Is what it read current?': [[], /current/, /directory/],
  'Is something withheld from proxies?': [['Configuration', 'Findings'], /No resource is withheld/, /"withheld": \[\]/],
};

test('each question of docs/questions.md is answered in at most three clicks and by one command', options, async () => {
  const { discovery } = shared.get();
  const folder = await tempDir(owner);
  const { body } = await discovery.http('/debug/config_dump?proxyID=pod-12.default');
  await writeFile(join(folder, 'dump.json'), body.replaceAll('"connect_timeout": "10s"', '"connect_timeout": "9s"'));
  const changed = service('web', { clusterIP: '10.96.0.1', ports: [...ports, { name: 'tcp', port: 81 }] });
  await writeFile(join(folder, 'web.yaml'), JSON.stringify(changed));
  const text = await readFile(join(import.meta.dirname, '../../docs/questions.md'), 'utf8');
  const rows = [...text.matchAll(/^\| ([^|]+\?) +\|.*\| `ctl-discovery ([^`]+)` +\|$/gm)];
  assert.deepEqual(
    rows.map(([, question]) => question),
    Object.keys(QUESTIONS),
  );
  for (const [, question = '', command = ''] of rows) {
    const [steps, shown, printed] = QUESTIONS[question] ?? assert.fail(question);
    await page().goto('/');
    for (const step of steps) {
      if (typeof step !== 'string') await page().getByLabel(step.field, { exact: true }).fill(step.text);
      else await clickable(step).first().click();
    }
    assert.ok(steps.filter((step) => typeof step === 'string').length <= 3, question);
    await shows(shown);
    await browserPicture(question);
    assert.match(await printedBy(command, folder), printed, command);
  }
});

function clickable(name: string) {
  const text = new RegExp(name);
  const link = page().getByRole('link', { name: text });
  return link.or(page().getByRole('button', { name: text })).or(page().locator('summary', { hasText: text }));
}

async function browserPicture(question: string): Promise<void> {
  await shared.get().browser.screenshot(`question-${question.toLowerCase().replaceAll(/\W+/g, '-')}`, false);
}

/** What a command of `ctl-discovery` prints. 1 is the exit code of those that find something wrong. */
async function printedBy(command: string, cwd: string): Promise<string> {
  const args = [...command.split(' '), '--httpAddr', `127.0.0.1:${shared.get().discovery.ports.http}`];
  const run = promisify(execFile)(process.execPath, [programFile('ctl-discovery'), ...args], { cwd });
  return run.then(
    ({ stdout }) => stdout,
    (error: { readonly code: unknown; readonly stdout: string; readonly stderr: string }) => {
      assert.deepEqual([error.code, error.stderr], [1, ''], command);
      return error.stdout;
    },
  );
}

test('no page reported an error', options, async () => {
  assert.deepEqual(shared.get().browser.errors, []);
});
