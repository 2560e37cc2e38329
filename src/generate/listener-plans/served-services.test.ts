import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memos } from '../../core/memo.ts';
import { PMap } from '../../core/pmap.ts';
import { fqdn, meshOf, service } from '../../model/testing/build.ts';
import { Services } from '../reads/index.ts';
import { httpEntries, ownHttpEntries } from './served-services.ts';

const port = (number: number, name: string) => ({ name, port: number });

function servicesOf(memos: Memos, ...ports: readonly (readonly object[])[]): Services {
  const snapshot = meshOf(ports.map((each, index) => service(`a/s${index}`, { ports: each })));
  return Services.of(memos, PMap.from(snapshot.scopeOf('a', {}).services.entries()));
}

const hosts = (entries: ReturnType<typeof httpEntries>) =>
  entries.map(({ service: { hostname }, port: { port: number } }) => `${hostname}:${number}`);

test('a listener of a Sidecar has the list that others have at the port, if it serves the same', () => {
  const memos = new Memos();
  const services = servicesOf(memos, [port(80, 'http')], [port(80, 'http'), port(81, 'http-admin')], [port(80, 'tcp')]);
  const others = httpEntries(memos, services.onPort(80), true);
  assert.deepEqual(hosts(others), [`${fqdn('s0.a')}:80`, `${fqdn('s1.a')}:80`]);
  assert.equal(ownHttpEntries(memos, services, 80, true), others);
  assert.equal(httpEntries(memos, services.onPort(80), true), others);
});

test('a listener of a Sidecar serves the only HTTP port of a service, too', () => {
  const memos = new Memos();
  const services = servicesOf(memos, [port(80, 'http')], [port(80, 'tcp'), port(81, 'http')]);
  assert.deepEqual(hosts(httpEntries(memos, services.onPort(80), true)), [`${fqdn('s0.a')}:80`]);
  assert.deepEqual(hosts(ownHttpEntries(memos, services, 80, true)), [`${fqdn('s0.a')}:80`, `${fqdn('s1.a')}:81`]);
});
