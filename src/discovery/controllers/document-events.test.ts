/** Events about refused documents, in a scripted API server. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { KubernetesClient } from '../../kubernetes/index.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import type { ResourceProblem } from '../../resources/index.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import { createConnection } from '../clusters/cluster.ts';
import { createLeadership } from '../clusters/leadership.ts';
import { RefusedDocuments } from '../pipeline/refused-documents.ts';
import { runDocumentEvents } from './document-events.ts';

const EVENTS = '/api/v1/events';
const LEASES = '/apis/coordination.k8s.io/v1/leases';
const cleanup: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

function problem(name: string, message: string, kind = 'VirtualService'): ResourceProblem {
  const key = `${kind}/shop/${name}`;
  return { id: key, key, origin: { source: 'kubernetes', uid: `uid-${name}` }, field: 'spec.hosts', message };
}

async function startServer() {
  const server = await ScriptedApiServer.start();
  cleanup.push(() => server.stop());
  for (const path of [EVENTS, LEASES]) server.serve(path);
  const control = storeWrites(server);
  const posts = () => server.requests.filter(({ method, path }) => method === 'POST' && path.endsWith('/events'));
  return { server, control, posts };
}

/** A replica; undefined where it reports nothing. */
function startReplica(server: ScriptedApiServer, crdValidation = true) {
  const settings = defaultDiscoverySettings({ crdValidation });
  const client = new KubernetesClient(createConnection(server.access()));
  const leadership = createLeadership(client, settings, {});
  const documents = new RefusedDocuments();
  const cluster = {
    client,
    leadership,
    ownToken: () => Promise.resolve(undefined),
    certificateAuthority: () => Promise.resolve(undefined),
    namespace: undefined,
    closing: new AbortController().signal,
    close: () => Promise.resolve(),
  };
  const task = runDocumentEvents({ settings, cluster }, documents);
  const close = async (): Promise<void> => {
    await task?.close();
    await leadership.close();
    client.connection.close();
  };
  cleanup.push(close);
  return { documents, task, close };
}

const bodies = (posts: readonly { readonly body: string }[]) =>
  posts.map(({ body }) => JSON.parse(body) as { message: string; involvedObject: object; metadata: { name: string } });

test('the author of a refused document finds the reason in an Event, once', async () => {
  const { server, posts } = await startServer();
  const { documents } = startReplica(server);
  documents.refused(problem('a', 'expected a host'), '; the last good version stays in force');
  await waitUntil(() => posts().length === 1, { what: () => 'an Event' });
  documents.refused(problem('a', 'expected a host'), '; the last good version stays in force');
  documents.refused(problem('b', 'expected another'), '');
  await waitUntil(() => posts().length === 2, { what: () => 'a second Event' });
  const [first, second] = bodies(posts());
  assert.equal(first?.message, 'spec.hosts: expected a host; the last good version stays in force');
  assert.deepEqual(first.involvedObject, {
    apiVersion: 'networking.mesh.io/v1alpha3',
    kind: 'VirtualService',
    namespace: 'shop',
    name: 'a',
    uid: 'uid-a',
  });
  assert.match(first.metadata.name, /^a\.[0-9a-f]{16}$/);
  assert.equal(second?.message, 'spec.hosts: expected another');
});

test('another reason is another Event, and so is a reason that returns after the document was good', async () => {
  const { server, posts } = await startServer();
  const { documents } = startReplica(server);
  for (const message of ['one', 'two']) {
    documents.refused(problem('a', message), '');
    await waitUntil(() => posts().length > 0 && bodies(posts()).at(-1)?.message.endsWith(message) === true, {
      what: () => `an Event about ${message}`,
    });
  }
  documents.resolved(problem('a', 'two'));
  documents.refused(problem('b', 'next'), '');
  await waitUntil(() => posts().length === 3, { what: () => 'the Event of the next document' });
  documents.refused(problem('a', 'two'), '');
  await waitUntil(() => posts().length === 4, { what: () => 'the Event of the returned problem' });
});

test('a replica that begins to lead writes the Events of what is refused, by the same names', async () => {
  const { server, posts } = await startServer();
  const first = startReplica(server);
  first.documents.refused(problem('a', 'expected a host'), '');
  await waitUntil(() => posts().length === 1, { what: () => 'the Event of the first replica' });
  const second = startReplica(server);
  second.documents.refused(problem('a', 'expected a host'), '');
  await first.close();
  await waitUntil(() => posts().length === 2, { what: () => 'the Event of the second replica' });
  const [one, two] = bodies(posts());
  assert.equal(one?.metadata.name, two?.metadata.name);
});

test('an Event that is forbidden is not tried again, and the next document is reported', async () => {
  const { server, control, posts } = await startServer();
  control.refuse = ({ body }) => (body.includes('"a"') ? [403, 'Forbidden'] : undefined);
  const { documents } = startReplica(server);
  documents.refused(problem('a', 'expected a host'), '');
  documents.refused(problem('b', 'expected a host'), '');
  await waitUntil(() => posts().length === 2, { what: () => 'two requests' });
});

test('documents that wait for the limit of Events take no time', async () => {
  const { server, posts } = await startServer();
  const { documents } = startReplica(server);
  let reads = 0;
  const { get } = RefusedDocuments.prototype;
  documents.get = (id) => {
    reads++;
    return get.call(documents, id);
  };
  for (let index = 0; index < 1000; index++) documents.refused(problem(`a${index}`, 'expected a host'), '');
  // The first 50 come at once, then 5 a second.
  await waitUntil(() => posts().length >= 52, { what: () => 'Events' });
  const written = posts().length;
  assert.ok(reads < 4 * written, `${reads} documents were looked at for ${written} Events`);
});

test('each problem of two documents with one name is reported for as long as it lasts', async () => {
  const { server, posts } = await startServer();
  const { documents } = startReplica(server);
  const first = problem('a', 'expected a host');
  const second = { ...problem('a', 'expected one document'), id: `${first.id}#duplicate` };
  documents.refused(first, '');
  documents.refused(second, '');
  await waitUntil(() => posts().length === 2, { what: () => 'two Events' });
  documents.resolved(second);
  assert.equal(documents.get(first.id)?.problem, first);
});

test('the name of an Event is valid, however long that of the document is', async () => {
  const { server, posts } = await startServer();
  const { documents } = startReplica(server);
  documents.refused(problem(`${'a'.repeat(219)}.${'b'.repeat(30)}`, 'expected a host'), '');
  await waitUntil(() => posts().length === 1, { what: () => 'an Event' });
  assert.match(bodies(posts())[0]?.metadata.name ?? '', /^a{219}\.[0-9a-f]{16}$/);
});

test('documents of other APIs are not reported', async () => {
  const { server, posts } = await startServer();
  const { documents } = startReplica(server);
  documents.refused(problem('route', 'expected a host', 'HTTPRoute'), '');
  documents.refused(problem('a', 'expected a host'), '');
  await waitUntil(() => posts().length === 1, { what: () => 'one Event' });
  assert.match(bodies(posts())[0]?.metadata.name ?? '', /^a\./);
});

test('without CTL_ENABLE_CRD_VALIDATION nothing is reported and nobody is elected', async () => {
  const { server } = await startServer();
  assert.equal(startReplica(server, false).task, undefined);
  assert.deepEqual(server.requests, []);
});
