/** Reviews of tokens by several scripted API servers. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Log } from '../../core/log.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { type Claims, testIssuer } from '../testing/credentials.ts';
import { type OtherCluster, OtherClusters } from './other-clusters.ts';
import { requestReview } from './review-request.ts';

const issuer = await testIssuer();
const ISS = 'https://kubernetes.default.svc';
const tokenOf = (claims: Claims = {}) => issuer.token({ iss: ISS, ...claims });

const accepted = (account: string) => ({
  authenticated: true,
  audiences: ['mesh-ca'],
  user: {
    username: `system:serviceaccount:shop:${account}`,
    extra: { 'authentication.kubernetes.io/pod-name': ['web-1'] },
  },
});

interface TestCluster extends OtherCluster {
  readonly server: ScriptedApiServer;
  /** Reviews that it was asked for. */
  asked(): number;
}

/** An API server that accepts these tokens. */
async function startCluster(
  context: TestContext,
  cluster: string,
  tokens: readonly string[],
  own?: string,
): Promise<TestCluster> {
  const server = await ScriptedApiServer.start();
  const options = { clock: fastClock(50), random: () => 0, userAgent: 'test' };
  const connection = new Connection({ access: server.access(), ...options });
  context.after(async () => {
    connection.close();
    await server.stop();
  });
  server.intercept = ({ body }, stream) => {
    const { token } = (JSON.parse(body) as { spec: { token: string } }).spec;
    return server.json(stream, { status: tokens.includes(token) ? accepted(cluster) : { error: 'unknown' } });
  };
  const client = new KubernetesClient(connection);
  return { cluster, client, server, ownToken: async () => own, asked: () => server.requests.length };
}

const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

function reviewer(own: TestCluster, others: readonly OtherCluster[], log = SILENT) {
  const clusters = new OtherClusters(() => others, log);
  const ask = (token: string) =>
    clusters.ask((...review) => requestReview(own.client, ...review), token, ['mesh-ca'], new AbortController().signal);
  return { ask, mayIssue: (iss: string) => clusters.mayIssue(iss) };
}

test('a token that the own cluster refuses is accepted by the cluster that it is of, with its Pod there', async (t) => {
  const [here, there] = [await tokenOf({ jti: 'here' }), await tokenOf({ jti: 'there' })];
  const home = await startCluster(t, 'home', [here]);
  const [east, west] = [await startCluster(t, 'east', []), await startCluster(t, 'west', [there])];
  const { ask } = reviewer(home, [east, west]);
  assert.deepEqual(await ask(here), {
    username: 'system:serviceaccount:shop:home',
    pod: { name: 'web-1', uid: '' },
  });
  assert.deepEqual([east.asked(), west.asked()], [0, 0], 'tokens of the own cluster cost the others nothing');
  assert.deepEqual(await ask(there), {
    username: 'system:serviceaccount:shop:west',
    pod: { name: 'web-1', uid: '', cluster: 'west' },
  });
  assert.match(JSON.stringify(await ask(await tokenOf({ jti: 'none' }))), /refusal.*does not accept/);
});

test('only clusters that may have issued a token are asked for its review', async (t) => {
  const home = await startCluster(t, 'home', []);
  const own = await tokenOf({ iss: 'https://east' });
  const east = await startCluster(t, 'east', [], own);
  const { ask, mayIssue } = reviewer(home, [east]);
  await ask(await tokenOf());
  assert.equal(east.asked(), 0);
  await ask(await tokenOf({ iss: 'https://east' }));
  assert.equal(east.asked(), 1);
  assert.deepEqual([await mayIssue('https://east'), await mayIssue(ISS)], [true, false]);
  const west = await startCluster(t, 'west', []);
  assert.equal(await reviewer(home, [west]).mayIssue(ISS), true, 'the issuer of west is not known');
});

test('a cluster that does not answer leaves a token undecided, and one line says so', async (t) => {
  const token = await tokenOf();
  const home = await startCluster(t, 'home', []);
  const [east, west] = [await startCluster(t, 'east', []), await startCluster(t, 'west', [token])];
  const lines: string[] = [];
  const log = { ...SILENT, warn: (line: string) => void lines.push(line) };
  east.server.intercept = (_request, stream) => east.server.fail(stream, 403, 'Forbidden');
  const { ask } = reviewer(home, [east, west], log);
  assert.match(JSON.stringify(await ask(token)), /shop:west/);
  const { ask: askEast } = reviewer(home, [east], log);
  assert.deepEqual(await askEast(token), { undecided: 'an API server of another cluster cannot review it now' });
  assert.deepEqual(await askEast(token), { undecided: 'an API server of another cluster cannot review it now' });
  assert.match(lines[0] ?? '', /^cluster east reviews no tokens: HTTP 403 Forbidden.*; callers with its tokens are/);
  assert.equal(lines.length, 2, 'one for each reviewer');
});
