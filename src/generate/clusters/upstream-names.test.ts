import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClientTlsSettings } from '../../resources/kinds/schemas.ts';
import type { SanMatcher } from '../common/mesh-tls.ts';
import { serverNames, type Traffic } from './upstream-names.ts';

const HOST = 'db.example.com';

/** `<server name> ⊢ <accepted names>`. */
function namesOf(
  tls: Omit<ClientTlsSettings, 'mode'>,
  traffic: Traffic,
  { host = HOST, ofService = [], verified = true }: { host?: string; ofService?: string[]; verified?: boolean } = {},
): string {
  const service = { hostname: host, subjectAltNames: ofService };
  const names = serverNames({ mode: 'SIMPLE', ...tls }, service, traffic, verified);
  const text = ({ matcher }: SanMatcher) => matcher?.exact ?? `*${matcher?.suffix}`;
  const expected = [...(names.verifiesRequestHost ? ['request'] : []), ...names.matchers.map(text)];
  return `${names.sniOfRequest ? 'request' : (names.sni ?? 'none')} ⊢ ${expected.join(' ')}`;
}

test('written names are accepted: those of the rule, else of the service, else the server name', () => {
  for (const traffic of ['requests', 'bytes', 'both'] as const) {
    const ofService = ['service.example'];
    assert.equal(
      namesOf({ sni: 'sni.example', subjectAltNames: ['a', 'b'] }, traffic, { ofService }),
      'sni.example ⊢ a b',
    );
    assert.equal(namesOf({ sni: 'sni.example' }, traffic, { ofService }), 'sni.example ⊢ service.example');
    assert.equal(namesOf({ sni: 'sni.example' }, traffic), 'sni.example ⊢ sni.example');
  }
});

test('without them, the host of each request, and for TCP the host of the service', () => {
  assert.equal(namesOf({}, 'requests'), 'request ⊢ request');
  assert.equal(namesOf({ sni: '' }, 'requests'), 'request ⊢ request');
  assert.equal(namesOf({ subjectAltNames: ['a'] }, 'requests'), 'request ⊢ a');
  assert.equal(namesOf({}, 'bytes'), `${HOST} ⊢ ${HOST}`);
  assert.equal(namesOf({}, 'both'), `${HOST} ⊢ ${HOST}`);
  assert.equal(namesOf({ subjectAltNames: ['a'] }, 'bytes'), `${HOST} ⊢ a`);
});

test('behind a wildcard host, only names that it covers', () => {
  const host = '*.example.com';
  assert.equal(namesOf({}, 'requests', { host }), 'request ⊢ request *.example.com');
  assert.equal(namesOf({}, 'both', { host }), 'request ⊢ request *.example.com');
  assert.equal(namesOf({}, 'bytes', { host }), 'none ⊢ *.example.com');
  assert.equal(namesOf({ sni: 'a.example.com' }, 'bytes', { host }), 'a.example.com ⊢ a.example.com');
});

test('where no authority verifies the server, no name is compared', () => {
  for (const traffic of ['requests', 'bytes', 'both'] as const) {
    assert.match(namesOf({ subjectAltNames: ['a'] }, traffic, { verified: false }), / ⊢ $/);
  }
});
