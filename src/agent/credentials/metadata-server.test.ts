import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { logLines } from '../identity/testing/log-lines.ts';
import { requestCounters } from './counters.ts';
import { metadataTokenSource } from './metadata-server.ts';
import { jwt, startService, type TestService } from './testing/service.ts';

const NOW = 1_700_000_000_000;
const HEADERS = { 'metadata-flavor': 'Google', 'content-type': 'text/html' };
const AUDIENCE = 'cluster.local';

const token = (seconds: number, more = {}) => jwt({ aud: AUDIENCE, exp: NOW / 1000 + seconds, ...more });

const answers =
  (text: string, status = 200, headers: Readonly<Record<string, string>> = HEADERS): TestService['answer'] =>
  (response) =>
    void response.writeHead(status, headers).end(text);

async function site(t: TestContext, answer: TestService['answer']) {
  const service = await startService(t, answer);
  const clock = { at: NOW };
  const now = (): number => clock.at;
  const log = logLines();
  const counters = requestCounters('metadata', now);
  const server = { url: service.url, audience: AUDIENCE };
  const { signal } = new AbortController();
  const source = metadataTokenSource({ server, counters, now, log, signal });
  const count = (name: string) => counters.metrics().find((each) => each.name === name)?.value;
  return { service, clock, log, source, count };
}

test('the identity token is requested as the platform documents it, once for many callers', async (t) => {
  const { service, source } = await site(t, answers(`${token(3600)}\n`));
  const tokens = await Promise.all([source.token(), source.token(), source.token()]);
  assert.deepEqual(new Set(tokens), new Set([token(3600)]));
  assert.equal(service.received.length, 1);
  assert.equal(
    service.received[0]?.path,
    '/computeMetadata/v1/instance/service-accounts/default/identity?audience=cluster.local&format=full',
  );
  assert.equal(service.received[0]?.headers['metadata-flavor'], 'Google');
});

test('the token is renewed before it expires, and kept meanwhile when the server fails', async (t) => {
  const { service, clock, log, source, count } = await site(t, answers(token(3600)));
  const first = await source.token();
  clock.at = NOW + 3_299_000;
  assert.equal(await source.token(), first);
  assert.equal(service.received.length, 1);

  clock.at = NOW + 3_301_000;
  service.answer = answers('', 503);
  assert.equal(await source.token(), first);
  assert.deepEqual(log.lines, [
    `warn the identity token is not renewed: the metadata server at ${service.url.host} returned HTTP 503`,
  ]);
  service.answer = answers(token(7200));
  assert.equal(await source.token(), token(7200));
  assert.deepEqual(log.lines.slice(1), ['info the identity token can be renewed again']);
  const names = ['num_outgoing_requests', 'num_failed_outgoing_requests', 'num_outgoing_retries'];
  assert.deepEqual(names.map(count), [3, 1, 1]);
});

test('an expired token is not used', async (t) => {
  const { service, clock, source } = await site(t, answers(token(60)));
  await source.token();
  clock.at = NOW + 60_000;
  service.answer = answers('', 503);
  await assert.rejects(source.token(), /returned HTTP 503/);
});

const LIES: Readonly<Record<string, readonly [answer: TestService['answer'], message: RegExp]>> = {
  'an error': [answers('no', 404), /^the metadata server at 127\.0\.0\.1:\d+ returned HTTP 404$/],
  'a redirect': [answers('', 302, { ...HEADERS, location: 'http://127.0.0.2/' }), /returned HTTP 302$/],
  'an answer of a server of another kind': [answers(token(60), 200, {}), /header Metadata-Flavor is missing/],
  'a response that is not a token': [answers('<html>s3cret</html>'), /did not return an identity token$/],
  'a token without expiry': [answers(jwt({ aud: AUDIENCE })), /did not return an identity token$/],
  'a token that has expired': [answers(token(-1)), /returned a token that expired at 2023-11-14T/],
  'a token for another audience': [answers(token(60, { aud: 's3cret' })), /returned a token for another audience$/],
  'an endless answer': [answers('x'.repeat(70_000)), /the response is longer than 65536 bytes$/],
  'no answer at all': [(response) => void response.destroy(), /socket hang up$/],
};

for (const [name, [answer, message]] of Object.entries(LIES))
  test(`${name} is a failure of one line, and the next call is answered`, async (t) => {
    const { service, source } = await site(t, answer);
    await assert.rejects(source.token(), (error: Error) => {
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /s3cret|\n/);
      return true;
    });
    service.answer = answers(token(60));
    assert.equal(await source.token(), token(60));
  });
