/**
 * AuthorizationPolicy as users see it: requests are allowed, denied (403) or cut off, through agents and real Envoys.
 * Every kind of field has its cases, followed by actions, scopes and combinations of policies. The table of all
 * expectations is printed at the end.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually, netnsUnavailable } from '../harness/index.ts';
import { type Ask, type Case, keyed, textOf } from './support/authorization-cases.ts';
import { CONDITION_CASES } from './support/authorization-conditions.ts';
import { OPERATION_CASES } from './support/authorization-operations.ts';
import { SCENARIOS } from './support/authorization-scopes.ts';
import { SOURCE_CASES } from './support/authorization-sources.ts';
import { type Expectation, ExpectationTable } from './support/authorization-table.ts';
import { atPort, TCP_CASES } from './support/authorization-tcp.ts';
import {
  AUTO_PORT,
  type AuthorizationWorld,
  type Guarded,
  startAuthorizationWorld,
  TCP_PORTS,
} from './support/authorization-world.ts';
import { type Document, resource } from './support/config.ts';
import { UNBOUND_PORT } from './support/identity-world.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;

const CASES = [...OPERATION_CASES, ...SOURCE_CASES, ...CONDITION_CASES];
/** The workload that tests an action, and the outcome of requests that a rule matches, and of others. */
const WHERE = {
  ALLOW: { app: 'shop', matches: 'allowed', differs: 'denied' },
  DENY: { app: 'bank', matches: 'denied', differs: 'allowed' },
} as const;
type Action = keyof typeof WHERE;

const owner = suiteOwner();
const shared = lazy<AuthorizationWorld>();
const world = () => shared.get();
const table = new ExpectationTable();

before(async () => {
  if (skip !== false) return;
  shared.set(await startAuthorizationWorld(owner));
});
after(() => table.print('Authorization through real Envoys'));

const idOf = (index: number) => `case-${index}`;
const actionsOf = ({ actions = ['ALLOW', 'DENY'] }: Case): readonly Action[] => actions;
const guardedBy = (action: Action): Guarded => `${WHERE[action].app}.foo`;

function policy(name: string, app: string, action: string, rules: readonly Document[]): Document {
  return resource('AuthorizationPolicy', name, { selector: { matchLabels: { app } }, action, rules }, 'foo');
}

function policiesOf(each: Case, index: number): Document[] {
  return actionsOf(each).map((action) => {
    const { app } = WHERE[action];
    const address = world().workload(guardedBy(action)).netns.address;
    const rules = typeof each.rules === 'function' ? each.rules({ address }) : each.rules;
    return policy(`${action.toLowerCase()}-${index}`, app, action, keyed(rules, idOf(index)));
  });
}

function expectationsOf(each: Case, index: number): Expectation[] {
  return actionsOf(each).flatMap((action) => {
    const expectation = (ask: Ask, expected: string): Expectation => ({
      group: each.group,
      what: each.what,
      request: `${action} ${textOf(ask)}`,
      expected,
      run: () => world().ask(guardedBy(action), ask, idOf(index)),
    });
    const { matches, differs } = WHERE[action];
    return [
      ...each.matches.map((ask) => expectation(ask, matches)),
      ...each.differs.map((ask) => expectation(ask, differs)),
    ];
  });
}

/** The header of a TLS record, by which Envoy recognizes TLS, with an arbitrary body. */
const CLIENT_HELLO = `\x16\x03\x01\x00\x31\x01\x00\x00\x2d\x03\x03${'x'.repeat(32)}\x00\x00\x04\x13\x01\x13\x02\x01\x00\x00\x00`;

const PATIENCE = { timeoutMs: 30_000, intervalMs: 100 };

/** All policies are applied in one step: when one has arrived, all have. */
async function arrived(): Promise<void> {
  const sentinel = 'sentinel';
  await world().config.apply(
    'sentinel',
    policy('sentinel-allow', 'shop', 'ALLOW', keyed([{}], sentinel)),
    policy('sentinel-deny', 'bank', 'DENY', keyed([{}], sentinel)),
  );
  await eventually(async () => {
    const seen = [await world().ask('shop.foo', {}, sentinel), await world().ask('bank.foo', {}, sentinel)];
    // And no others: shop.foo denies what no policy allows.
    seen.push(await world().ask('shop.foo', {}), await world().ask('bank.foo', {}));
    assert.deepEqual(seen, ['allowed', 'denied', 'denied', 'allowed']);
  }, PATIENCE);
}

describe('authorization', { skip }, () => {
  test('every field of a rule works in ALLOW and DENY policies', async () => {
    await world().config.apply('cases', ...CASES.flatMap(policiesOf));
    await arrived();
    assert.deepEqual(await table.check(CASES.flatMap(expectationsOf)), []);
  });

  test('ports and connections that are not recognized as HTTP are restricted', async () => {
    const index = CASES.findIndex(({ what }) => what === 'prefix /admin*');
    const rows: readonly (readonly [what: string, guarded: Guarded, ask: Ask, expected: string])[] = [
      ['first bytes tell', 'shop.foo', { line: 'GET /admin', port: AUTO_PORT }, 'allowed'],
      ['first bytes tell', 'shop.foo', { line: 'GET /', port: AUTO_PORT }, 'denied'],
      ['first bytes tell', 'bank.foo', { line: 'GET /', port: AUTO_PORT }, 'allowed'],
      ['first bytes tell', 'bank.foo', { line: 'GET /admin', port: AUTO_PORT }, 'denied'],
      // Bytes that the application would accept as HTTP nevertheless.
      ['first bytes hide it', 'bank.foo', { line: 'GET /admin', port: AUTO_PORT, before: '\r\n' }, 'closed'],
      ['first bytes hide it', 'bank.foo', { line: 'GET /', port: AUTO_PORT, before: '\n' }, 'closed'],
      ['first bytes hide it', 'shop.foo', { line: 'GET /admin', port: AUTO_PORT, before: '\r\n' }, 'closed'],
      ['first bytes hide nothing where HTTP is known', 'bank.foo', { line: 'GET /admin', before: '\r\n' }, 'denied'],
      ['first bytes hide nothing where HTTP is known', 'shop.foo', { line: 'GET /', before: '\r\n' }, 'denied'],
      ['a port of no service', 'shop.foo', { line: 'GET /admin', port: UNBOUND_PORT }, 'allowed'],
      ['a port of no service', 'shop.foo', { line: 'GET /', port: UNBOUND_PORT }, 'denied'],
      ['a port of no service', 'bank.foo', { line: 'GET /', port: UNBOUND_PORT }, 'allowed'],
      ['a port of no service', 'bank.foo', { line: 'GET /admin', port: UNBOUND_PORT }, 'denied'],
      [
        'a port of no service, and first bytes hide it',
        'bank.foo',
        { line: 'GET /', port: UNBOUND_PORT, before: '\r\n' },
        'closed',
      ],
      ["TLS of the application's own", 'bank.foo', { line: 'GET /', before: CLIENT_HELLO }, 'closed'],
      ["TLS of the application's own", 'shop.foo', { line: 'GET /admin', before: CLIENT_HELLO }, 'closed'],
    ];
    const expectations = rows.map(([what, guarded, ask, expected]) => ({
      group: 'what is HTTP',
      what,
      request: `${guarded} ${textOf(ask)}`,
      expected,
      run: () => world().ask(guarded, ask, idOf(index)),
    }));
    assert.deepEqual(await table.check(expectations), []);
  });

  test('TCP connections: identity and addresses count, and conditions about HTTP can only deny', async () => {
    const policies = TCP_CASES.flatMap(({ action, rules }, index) => {
      const port = TCP_PORTS[index] ?? 0;
      const open = policy(`tcp-open-${index}`, 'shop', 'ALLOW', atPort([{}], port));
      const own = policy(`tcp-${index}`, 'shop', action, atPort(rules, port));
      return action === 'ALLOW' ? [own] : [own, open];
    });
    await world().config.apply('tcp', ...policies);
    const last = TCP_PORTS[TCP_CASES.length - 1] ?? 0;
    await eventually(async () => assert.equal(await world().talk('shop.foo', last, 'plain'), 'allowed'), PATIENCE);
    const expectations = TCP_CASES.flatMap(({ what, expected }, index) =>
      expected.map(({ is, ...each }) => ({
        group: 'TCP',
        what,
        request: JSON.stringify(each),
        expected: is,
        run: () => world().talk('shop.foo', TCP_PORTS[index] ?? 0, each.from, each),
      })),
    );
    // A port that no policy allows, and one of a workload whose rules about HTTP deny.
    const others = (['shop.foo', 'bank.foo'] as const).map((id) => ({
      group: 'TCP',
      what: id === 'shop.foo' ? 'a port that no ALLOW is about' : 'DENY rules about HTTP, of all ports',
      request: 'plain',
      expected: 'closed',
      run: () => world().talk(id, TCP_PORTS.at(-1) ?? 0, 'plain'),
    }));
    assert.deepEqual(await table.check([...expectations, ...others]), []);
    await world().config.remove('tcp');
  });

  test('after the policies are deleted everything is allowed', async () => {
    await world().config.remove('cases');
    await world().config.remove('sentinel');
    await eventually(async () => {
      for (const id of ['shop.foo', 'bank.foo']) {
        assert.equal(await world().ask(id, { line: 'DELETE /admin' }, idOf(0)), 'allowed');
        // The connections that the policies cut off reach the application without them.
        for (const port of [AUTO_PORT, UNBOUND_PORT]) assert.equal(await world().ask(id, { port }), 'allowed');
        assert.equal(await world().ask(id, { port: AUTO_PORT, before: '\r\n' }), 'allowed');
        assert.match(await world().ask(id, { before: CLIENT_HELLO }), /^400/);
        assert.equal(await world().talk(id, TCP_PORTS[0] ?? 0, 'plain'), 'allowed');
      }
    }, PATIENCE);
  });

  for (const { what, policies, expected } of SCENARIOS) {
    test(what, async () => {
      await world().config.apply('scenario', ...policies);
      const expectations = expected.map(({ to, is, ...ask }) => ({
        group: 'actions and scopes',
        what,
        request: `${to} ${textOf(ask)}`,
        expected: is,
        run: () => (ask.tcp ? world().talk(to, TCP_PORTS[0] ?? 0, ask.from ?? 'plain') : world().ask(to, ask)),
      }));
      await table.settle(expectations);
      // Waits for the deletion to take effect, so that the next policy does not seem to have arrived too early.
      await world().config.remove('scenario');
      await eventually(async () => {
        const seen = await Promise.all(expectations.map((each) => each.run()));
        assert.deepEqual([...new Set(seen)], ['allowed']);
      }, PATIENCE);
    });
  }
});
