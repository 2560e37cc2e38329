/** Reviews of tokens by a scripted API server. */
import assert from 'node:assert/strict';
import type { ServerHttp2Stream } from 'node:http2';
import { afterEach, describe, test } from 'node:test';
import { decodeJwt } from 'jose';
import { systemClock } from '../../core/clock.ts';
import { type FakeClock, fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { type Claims, NOW, testIssuer } from '../testing/credentials.ts';
import { createTokenAuthenticator } from '../token-authenticator.ts';
import type { Authenticator, Caller } from '../types.ts';
import { createClusterReviews } from './cluster-reviews.ts';
import { MAX_RUNNING, TIME_LIMIT_MS } from './review-queue.ts';
import { createTokenReviewer, type TokenReviewerOptions } from './token-reviewer.ts';

const CLUSTER = 'https://kubernetes.default.svc';
const PATH = '/apis/authentication.k8s.io/v1/tokenreviews';
const ACCEPTED = {
  authenticated: true,
  audiences: ['mesh-ca'],
  user: {
    username: 'system:serviceaccount:shop:web',
    extra: {
      'authentication.kubernetes.io/pod-name': ['web-1'],
      'authentication.kubernetes.io/pod-uid': ['uid-1'],
    },
  },
};

const issuer = await testIssuer();
let tokens = 0;
/** A token of the cluster; each one differs from the others. */
const token = (claims: Claims = {}) => issuer.token({ iss: CLUSTER, jti: String(++tokens), ...claims });
const own = await token();

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

interface World {
  readonly server: ScriptedApiServer;
  readonly clock: FakeClock;
  readonly problems: (string | undefined)[];
  readonly authenticator: Authenticator;
  /** Bodies of the reviews that were requested. */
  reviews(): { readonly token: string; readonly audiences?: readonly string[] }[];
  /** The identity and Pod of the caller, or the code and reason of the refusal. */
  outcome(token: string, peer?: string): Promise<string>;
}

async function world(changes: Partial<TokenReviewerOptions> = {}): Promise<World> {
  const server = await ScriptedApiServer.start();
  cleanup.push(() => server.stop());
  answerWith(server, () => ACCEPTED);
  const connection = new Connection({
    access: server.access(),
    clock: systemClock,
    random: () => 0,
    userAgent: 'test',
  });
  cleanup.push(() => connection.close());
  const client = new KubernetesClient(connection);
  const clock = fakeClock({ start: NOW });
  const problems: (string | undefined)[] = [];
  const [audiences, firstParty] = [['mesh-ca', 'istio-ca'], false];
  const reviewer = createTokenReviewer({
    ask: createClusterReviews({ client, clock, onProblem: (problem) => problems.push(problem?.code) }),
    ownToken: async () => own,
    trustDomain: 'cluster.local',
    audiences,
    firstParty,
    clock,
    ...changes,
  });
  const authenticator = createTokenAuthenticator({
    issuers: [],
    reviewer,
    trustDomain: 'cluster.local',
    audiences,
    withoutAudience: firstParty,
    now: clock.now,
  });
  return {
    server,
    clock,
    problems,
    authenticator,
    reviews: () =>
      server.requests.filter(({ path }) => path === PATH).map(({ body }) => JSON.parse(body).spec as { token: string }),
    outcome: async (bearer, peer = '10.0.0.1:4000') => {
      try {
        return shown(await authenticator.authenticate({ certificates: [], bearer, peer }));
      } catch (error) {
        return `${(error as { code: string }).code}: ${(error as Error).message}`;
      }
    },
  };
}

function shown(caller: Caller | undefined): string {
  const { identity, pod } = caller ?? assert.fail('nobody');
  return `${identity.namespace}/${identity.serviceAccount}${pod === undefined ? '' : ` in ${pod.name} ${pod.uid}`}`;
}

function answerWith(server: ScriptedApiServer, status: (spec: { token: string }) => unknown): void {
  server.intercept = ({ path, body }, stream) =>
    path === PATH && server.json(stream, { kind: 'TokenReview', status: status(JSON.parse(body).spec) });
}

const WEB = 'shop/web in web-1 uid-1';

describe('a token of a service account', () => {
  test('is reviewed by the API server, with the audiences of the mesh, and proves its account and Pod', async () => {
    const { outcome, reviews, authenticator } = await world();
    const bearer = await token({ exp: NOW / 1000 + 90 });
    assert.equal(await outcome(bearer), WEB);
    assert.deepEqual(reviews(), [{ token: bearer, audiences: ['mesh-ca', 'istio-ca'] }]);
    const caller = await authenticator.authenticate({ certificates: [], bearer, peer: '' });
    assert.equal(caller?.expiresAt, NOW + 90_000);
  });

  test('is reviewed once for concurrent calls, and again after half a minute', async () => {
    const { outcome, reviews, clock } = await world();
    const bearer = await token();
    const calls = await Promise.all(Array.from({ length: 20 }, () => outcome(bearer)));
    assert.deepEqual(new Set(calls), new Set([WEB]));
    assert.equal(reviews().length, 1);
    clock.pass(29_000);
    assert.equal(await outcome(bearer), WEB);
    assert.equal(reviews().length, 1);
    clock.pass(1000);
    assert.equal(await outcome(bearer), WEB);
    assert.equal(reviews().length, 2);
  });

  test('is refused when it has expired, although its review is remembered', async () => {
    const { outcome, clock } = await world();
    const bearer = await token({ exp: NOW / 1000 + 10 });
    assert.equal(await outcome(bearer), WEB);
    clock.pass(10_000);
    assert.equal(await outcome(bearer), 'unauthenticated: it has expired');
  });

  const REFUSED: readonly (readonly [string, unknown, RegExp])[] = [
    ['the API server does not accept', { error: 'it "ended"' }, /does not accept it \("it \\"ended\\""\)$/],
    ['the API server says nothing about', {}, /the API server does not accept it$/],
    ['is for an audience that the API server does not confirm', { ...ACCEPTED, audiences: [] }, /not confirm its aud/],
    ['was reviewed without regard to audiences', { ...ACCEPTED, audiences: undefined }, /not confirm its audience$/],
    ['is for another audience after all', { ...ACCEPTED, audiences: ['vault'] }, /not confirm its audience$/],
    ['is of a person', { ...ACCEPTED, user: { username: 'jo' } }, /"jo" is not that of a service account$/],
    ['is of nobody', { ...ACCEPTED, user: undefined }, /"" is not that of a service account$/],
  ];
  for (const [what, status, reason] of REFUSED)
    test(`that ${what} is refused, and reviewed again after a few seconds`, async () => {
      const { outcome, reviews, server, clock } = await world();
      answerWith(server, () => status);
      const bearer = await token();
      for (let call = 0; call < 3; call++) {
        const line = await outcome(bearer);
        assert.match(line, /^unauthenticated: /);
        assert.match(line, reason);
      }
      assert.equal(reviews().length, 1);
      answerWith(server, () => ACCEPTED);
      clock.pass(5000);
      assert.equal(await outcome(bearer), WEB);
    });

  const UNREVIEWED: readonly (readonly [string, Claims, RegExp])[] = [
    ['has expired', { exp: NOW / 1000 }, /it has expired$/],
    ['ends at no time', { exp: 'never' as unknown as number }, /it has expired$/],
    ['never ends', { exp: undefined }, /it lacks "exp"$/],
    ['is for another audience', { aud: 'vault' }, /another audience$/],
    ['has no audience', { aud: undefined }, /another audience$/],
    ['is of a person', { sub: 'jo' }, /"jo" is not that of a service account$/],
  ];
  for (const [what, claims, reason] of UNREVIEWED)
    test(`that ${what} is refused without a request to the API server`, async () => {
      const { outcome, server } = await world();
      assert.match(await outcome(await token(claims)), reason);
      assert.match(await outcome('x'.repeat(20_000)), /longer than/);
      assert.match(await outcome('x.y.z'), /not a JSON Web Token/);
      assert.deepEqual(server.requests, []);
    });

  test('of another issuer causes at most one request in a second, from all callers together', async () => {
    const { outcome, reviews, server, clock } = await world();
    answerWith(server, () => ({ error: 'unknown key' }));
    const other = () => token({ iss: 'https://elsewhere.example' });
    for (let call = 0; call < 5; call++)
      assert.match(await outcome(await other(), `10.0.0.${call}:1`), /^unauthenticated: /);
    assert.equal(reviews().length, 1);
    assert.match(await outcome(await other()), /its issuer "https:\/\/elsewhere.example" is not trusted$/);
    clock.pass(1000);
    await outcome(await other());
    assert.equal(reviews().length, 2);
  });

  test("of the API server's new issuer is reviewed, however many tokens of other issuers arrive", async () => {
    const { outcome, server } = await world();
    answerWith(server, ({ token: bearer }) =>
      decodeJwt(bearer).iss === 'https://new.example' ? ACCEPTED : { error: 'unknown key' },
    );
    for (let n = 0; n < 5; n++) await outcome(await token({ iss: `https://${n}.example` }));
    assert.equal(await outcome(await token({ iss: 'https://new.example' })), WEB);
  });

  test('of an issuer that the API server accepts is reviewed as others are', async () => {
    const { outcome, reviews } = await world();
    const former = () => token({ iss: 'https://former.example' });
    for (let call = 0; call < 5; call++) assert.equal(await outcome(await former()), WEB);
    assert.equal(reviews().length, 5);
  });

  test('of any issuer is reviewed while that of the API server is not known', async () => {
    const ofSecret = await token({ iss: 'kubernetes/serviceaccount' });
    for (const own of [undefined, ofSecret]) {
      const { outcome, server } = await world({ ownToken: async () => own });
      answerWith(server, () => ({ error: 'unknown key' }));
      for (const iss of ['a', 'a', 'b'])
        assert.match(await outcome(await token({ iss })), /API server does not accept/);
    }
  });

  test('of the local cluster is reviewed, however many issuers other clusters have', async () => {
    const ask: TokenReviewerOptions['ask'] = async (bearer) => {
      const { iss = '', sub = '' } = decodeJwt(bearer);
      return { username: sub, pod: undefined, ...(iss === CLUSTER ? {} : { cluster: iss }) };
    };
    const { outcome } = await world({ ask, mayIssue: async (iss) => iss !== CLUSTER });
    for (let n = 0; n < 10; n++) assert.equal(await outcome(await token({ iss: `https://${n}` })), 'shop/web');
    for (let n = 0; n < 3; n++) assert.equal(await outcome(await token()), 'shop/web');
  });
});

describe('JWT_POLICY first-party-jwt', () => {
  test('accepts tokens for the API server itself, without an end too', async () => {
    const { outcome, reviews, authenticator, server } = await world({ firstParty: true });
    answerWith(server, () => ({ ...ACCEPTED, audiences: [CLUSTER], user: { username: ACCEPTED.user.username } }));
    const legacy = await token({ iss: 'kubernetes/serviceaccount', aud: undefined, exp: undefined });
    assert.equal(await outcome(legacy), 'shop/web');
    assert.equal(await outcome(await token({ aud: CLUSTER })), 'shop/web');
    assert.ok(reviews().every(({ audiences }) => audiences === undefined));
    const caller = await authenticator.authenticate({ certificates: [], bearer: legacy, peer: '' });
    assert.equal(caller?.expiresAt, NOW + 3_600_000);
  });

  test('asks for the audiences of the mesh where a token has one of them', async () => {
    const { outcome, reviews } = await world({ firstParty: true });
    assert.equal(await outcome(await token({ aud: 'mesh-ca' })), WEB);
    assert.deepEqual(reviews()[0]?.audiences, ['mesh-ca', 'istio-ca']);
  });
});

describe('while the API server reviews nothing', () => {
  const FAILURES: readonly (readonly [string, number, string])[] = [
    ['forbids reviews', 403, 'permission_denied'],
    ["refuses this program's own token", 401, 'unauthenticated'],
    ['is overloaded', 429, 'resource_exhausted'],
    ['fails', 500, 'unavailable'],
  ];
  for (const [what, status, problem] of FAILURES)
    test(`because it ${what}, callers are told to retry, and it is reported once`, async () => {
      const { outcome, server, problems } = await world();
      server.intercept = (_, stream) => server.fail(stream, status, 'Scripted');
      const bearer = await token();
      for (const each of [bearer, bearer, await token()])
        assert.equal(await outcome(each), 'unavailable: the API server cannot review it now, try again later');
      assert.deepEqual(problems, [problem]);
      answerWith(server, () => ACCEPTED);
      assert.equal(await outcome(bearer), WEB);
      assert.deepEqual(problems, [problem, undefined]);
    });

  test('because it cannot be reached, a token is accepted as long as its review is remembered', async () => {
    const { outcome, server, clock } = await world();
    const bearer = await token();
    assert.equal(await outcome(bearer), WEB);
    await server.stop();
    assert.equal(await outcome(bearer), WEB);
    clock.pass(30_000);
    assert.match(await outcome(bearer), /^unavailable: /);
  });

  test('because it does not answer, a review ends at its time limit', async () => {
    const { outcome, server, clock } = await world();
    server.intercept = () => true;
    const pending = outcome(await token());
    await waitUntil(() => server.requests.length === 1);
    clock.pass(TIME_LIMIT_MS);
    assert.match(await pending, /^unavailable: /);
  });

  test('because it answers with something else, callers are told to retry', async () => {
    const { outcome, server } = await world();
    server.intercept = (_, stream) => server.json(stream, { kind: 'List', items: [] });
    assert.match(await outcome(await token()), /^unavailable: /);
  });
});

describe('many callers', () => {
  test('are all served: a thousand tokens at once, few reviews at a time', async () => {
    const { outcome, server } = await world();
    let [open, most] = [0, 0];
    server.intercept = (_, stream: ServerHttp2Stream) => {
      most = Math.max(most, ++open);
      setImmediate(() => {
        open--;
        server.json(stream, { kind: 'TokenReview', status: ACCEPTED });
      });
      return true;
    };
    const all = await Promise.all(Array.from({ length: 1000 }, () => token()));
    const outcomes = await Promise.all(all.map((each, index) => outcome(each, `10.0.${index >> 8}.${index & 255}:1`)));
    assert.deepEqual(new Set(outcomes), new Set([WEB]));
    assert.ok(most <= MAX_RUNNING, `${most} reviews at a time`);
    assert.equal(server.connections, 1);
  });

  test('take turns: one that sends many tokens does not delay another', async () => {
    const { outcome, server, reviews } = await world();
    const waiting: (() => void)[] = [];
    server.intercept = (_, stream) => {
      waiting.push(() => server.json(stream, { kind: 'TokenReview', status: ACCEPTED }));
      return true;
    };
    const busy = await Promise.all(Array.from({ length: MAX_RUNNING * 3 }, () => token()));
    const outcomes = busy.map((each) => outcome(each, '[fd00::1]:5'));
    await waitUntil(() => waiting.length === MAX_RUNNING);
    const honest = await token();
    outcomes.push(outcome(honest, '10.0.0.7:5'));
    await new Promise((resolve) => setImmediate(resolve));
    waiting.shift()?.();
    waiting.shift()?.();
    await waitUntil(() => waiting.length === MAX_RUNNING);
    assert.ok(reviews().some(({ token: reviewed }) => reviewed === honest));
    answerWith(server, () => ACCEPTED);
    for (const answer of waiting.splice(0)) answer();
    assert.deepEqual(new Set(await Promise.all(outcomes)), new Set([WEB]));
  });
});
