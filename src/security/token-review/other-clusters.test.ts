/** Reviews of tokens by several scripted API servers. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock.ts';
import type { CtlError } from '../../core/errors.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { type Claims, testIssuer } from '../testing/credentials.ts';
import { createClusterReviews } from './cluster-reviews.ts';
import { OTHERS_TIME_MS, type OtherCluster, OtherClusters, OWN_TIME_MS } from './other-clusters.ts';
import { MAX_RUNNING, TIME_LIMIT_MS } from './review-queue.ts';

const issuer = await testIssuer();
const ISS = 'https://kubernetes.default.svc';
const tokenOf = (claims: Claims = {}) => issuer.token({ iss: ISS, ...claims });

const accepted = (sub: string) => ({
  authenticated: true,
  audiences: ['mesh-ca'],
  user: { username: sub, extra: { 'authentication.kubernetes.io/pod-name': ['web-1'] } },
});
const WEB = 'system:serviceaccount:shop:web';
const HOME = { username: WEB, pod: { name: 'web-1', uid: '' } };
const of = (cluster: string) => ({ username: WEB, cluster, pod: { name: 'web-1', uid: '', cluster } });

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
  const options = { clock: systemClock, random: () => 0, userAgent: 'test' };
  const connection = new Connection({ access: server.access(), ...options });
  context.after(async () => {
    connection.close();
    await server.stop();
  });
  server.intercept = ({ body }, stream) => {
    const { token } = (JSON.parse(body) as { spec: { token: string } }).spec;
    return server.json(stream, { status: tokens.includes(token) ? accepted(WEB) : { error: 'unknown' } });
  };
  const client = new KubernetesClient(connection);
  return { cluster, client, server, ownToken: async () => own, asked: () => server.requests.length };
}

function reviewer(own: TestCluster, others: readonly OtherCluster[]) {
  const clock = fakeClock();
  const problems: string[] = [];
  const noted = (cluster: string) => (problem: CtlError | undefined) =>
    void problems.push(`${cluster} ${problem?.code ?? 'reviews'}`);
  const clusters = new OtherClusters({
    clusters: () => others,
    ownToken: own.ownToken,
    clock,
    onProblem: (cluster, problem) => noted(cluster)(problem),
  });
  const ownReviews = createClusterReviews({ client: own.client, clock, onProblem: noted(own.cluster) });
  return {
    clock,
    problems,
    ask: (token: string, peer = '10.0.0.1:5') => clusters.ask(ownReviews, token, ['mesh-ca'], peer),
    askForServer: (token: string) => clusters.ask(ownReviews, token, undefined, '10.0.0.1:5'),
    mayIssue: (iss: string) => clusters.mayIssue(iss),
  };
}

test('a token that the local cluster refuses is accepted by the cluster that it is of, with its Pod there', async (t) => {
  const [here, there] = [await tokenOf({ jti: 'here' }), await tokenOf({ jti: 'there' })];
  const home = await startCluster(t, 'home', [here]);
  const [east, west] = [await startCluster(t, 'east', []), await startCluster(t, 'west', [there])];
  const { ask } = reviewer(home, [east, west]);
  assert.deepEqual(await ask(here), HOME);
  assert.deepEqual([east.asked(), west.asked()], [0, 0], 'tokens of the local cluster cost the others nothing');
  assert.deepEqual(await ask(there), of('west'));
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
  const ofSecret = await tokenOf({ iss: 'kubernetes/serviceaccount' });
  for (const unknown of [undefined, ofSecret]) {
    const west = await startCluster(t, 'west', [], unknown);
    assert.equal(await reviewer(home, [west]).mayIssue(ISS), true, 'the issuer of west is not known');
  }
});

test('a cluster cannot give the caller of another one an identity that it has not asked for', async (t) => {
  const token = await tokenOf();
  const home = await startCluster(t, 'home', []);
  const [east, west] = [await startCluster(t, 'east', []), await startCluster(t, 'west', [token])];
  east.server.intercept = (_, stream) =>
    east.server.json(stream, { status: accepted('system:serviceaccount:shop:admin') });
  assert.deepEqual(await reviewer(home, [east, west]).ask(token), of('west'));
  const refusal = { refusal: 'cluster east names another account' };
  assert.deepEqual(await createOthers(east).ask(async () => refusal, token, ['mesh-ca'], ''), refusal);
});

/** Reviews by one other cluster. */
function createOthers(other: OtherCluster): OtherClusters {
  const ownToken = async () => undefined;
  return new OtherClusters({ clusters: () => [other], ownToken, clock: fakeClock(), onProblem: () => {} });
}

test('a token for an API server itself is shown to that of the cluster alone that issued it', async (t) => {
  const issuedBy = (cluster: string) => tokenOf({ iss: `https://${cluster}`, aud: `https://${cluster}` });
  const cluster = async (name: string, own?: string) => startCluster(t, name, [], own);
  const home = await cluster('home', await issuedBy('home'));
  const [east, west, plain] = [
    await cluster('east', await issuedBy('east')),
    await cluster('west', await issuedBy('west')),
    await cluster('plain'),
  ];
  const others = [east, west, plain];
  const asked = () => others.map((other) => other.asked());
  const { askForServer } = reviewer(home, others);
  await askForServer(await issuedBy('east'));
  assert.deepEqual(asked(), [1, 0, 0]);
  for (const issuer of ['home', 'plain', 'unknown']) await askForServer(await issuedBy(issuer));
  assert.deepEqual(asked(), [1, 0, 0]);
  const second = await cluster('second', await issuedBy('east'));
  await reviewer(home, [...others, second]).askForServer(await issuedBy('east'));
  await reviewer(await cluster('unnamed'), others).askForServer(await issuedBy('east'));
  assert.deepEqual([...asked(), second.asked()], [1, 0, 0, 0]);
});

test('a cluster that fails leaves a token undecided, which is reported once', async (t) => {
  const token = await tokenOf();
  const home = await startCluster(t, 'home', []);
  const [east, west] = [await startCluster(t, 'east', []), await startCluster(t, 'west', [token])];
  east.server.intercept = (_request, stream) => east.server.fail(stream, 403, 'Forbidden');
  assert.deepEqual(await reviewer(home, [east, west]).ask(token), of('west'));
  const { ask, problems } = reviewer(home, [east]);
  const undecided = { undecided: 'an API server of another cluster cannot review it now' };
  assert.deepEqual([await ask(token), await ask(token)], [undecided, undecided]);
  assert.deepEqual(problems, ['east permission_denied']);
});

test('a cluster that does not answer delays no token that another one accepts', async (t) => {
  const [here, there] = [await tokenOf({ jti: 'here' }), await tokenOf({ jti: 'there' })];
  const home = await startCluster(t, 'home', [here]);
  const [east, west] = [await startCluster(t, 'east', []), await startCluster(t, 'west', [there])];
  east.server.intercept = () => true;
  const { ask, clock, problems } = reviewer(home, [east, west]);
  const lost = await Promise.all(Array.from({ length: 3 * MAX_RUNNING }, (_, n) => tokenOf({ jti: `lost ${n}` })));
  const pending = lost.map((token, n) => ask(token, `10.0.${n}.1:5`));
  await waitUntil(() => east.asked() === MAX_RUNNING && west.asked() === lost.length);
  assert.deepEqual([await ask(here), await ask(there)], [HOME, of('west')]);
  assert.equal(problems.length, 0);
  clock.pass(OTHERS_TIME_MS);
  for (const answer of await Promise.all(pending)) assert.ok('undecided' in answer);
  assert.ok(problems.includes('east unavailable'));
});

test('an own cluster that fails or does not answer does not keep others from accepting their tokens', async (t) => {
  const [here, there] = [await tokenOf({ jti: 'here' }), await tokenOf({ jti: 'there' })];
  const home = await startCluster(t, 'home', [here]);
  const west = await startCluster(t, 'west', [there]);
  const { ask, clock, problems } = reviewer(home, [west]);
  home.server.intercept = (_request, stream) => home.server.fail(stream, 500, 'Scripted');
  assert.deepEqual(await ask(there), of('west'));
  await assert.rejects(ask(here), { code: 'unavailable' });
  assert.deepEqual(problems, ['home unavailable']);
  home.server.intercept = () => true;
  const before = home.asked();
  const [accepted, refused] = [ask(there), ask(here)];
  await waitUntil(() => home.asked() === before + 2);
  clock.pass(OWN_TIME_MS);
  assert.deepEqual(await accepted, of('west'));
  await waitUntil(() => west.asked() === 4);
  clock.pass(TIME_LIMIT_MS);
  await assert.rejects(refused, { code: 'unavailable' });
});
