import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distinctChains, type MatchedChain } from './chain-matches.ts';

function chain(to: string, names: readonly string[], sources: readonly string[] = [], label = 'server'): MatchedChain {
  return { names, sources, label, chain: { name: to }, routeName: to };
}

/** The chains in order: where they lead, server names, ranges of clients. */
function matches(...chains: readonly MatchedChain[]): string[] {
  return distinctChains(chains).chains.map(({ name, filterChainMatch }) => {
    const from = (filterChainMatch?.sourcePrefixRanges ?? []).map(
      ({ addressPrefix, prefixLen }) => `${addressPrefix}/${prefixLen?.value}`,
    );
    return [name, filterChainMatch?.serverNames?.join() ?? 'any', ...(from.length > 0 ? [from.join()] : [])].join(' ');
  });
}

test('a server name belongs to the first chain that has it', () => {
  const chains = [chain('one', ['a.com', 'b.com']), chain('two', ['b.com', 'c.com'], [], 'other'), chain('all', ['*'])];
  assert.deepEqual(matches(...chains), ['one a.com,b.com', 'two c.com', 'all any']);
  const { complaints, refs } = distinctChains([...chains, chain('none', ['a.com']), chain('odd', ['*a.com'])]);
  assert.deepEqual(complaints, [
    'other: TLS server name b.com is taken by server',
    'server: TLS server name a.com is taken by server',
    'server: TLS server name *a.com is not a whole-label wildcard',
  ]);
  assert.deepEqual(refs, ['one', 'two', 'all']);
});

test('some clients have their own chain for a name, and all others the next one', () => {
  assert.deepEqual(matches(chain('inside', ['a.com'], ['10.0.0.0/8', '10.0.0.0/8']), chain('rest', ['a.com'])), [
    'inside a.com 10.0.0.0/8',
    'rest a.com',
  ]);
  const first = matches(chain('rest', ['a.com']), chain('inside', ['a.com', 'b.com'], ['10.0.0.0/8']));
  assert.deepEqual(first, ['rest a.com', 'inside b.com 10.0.0.0/8']);
});

test('a range inside of an earlier one gets no chain, because Envoy would prefer it', () => {
  const wide = chain('wide', ['a.com'], ['10.0.0.0/8']);
  assert.deepEqual(matches(wide, chain('narrow', ['a.com', 'b.com'], ['10.1.0.0/16', '11.0.0.0/8'])), [
    'wide a.com 10.0.0.0/8',
    'narrow b.com 10.1.0.0/16',
    'narrow a.com,b.com 11.0.0.0/8',
  ]);
});

test('other clients of a name get the chain of the same server for a wider name', () => {
  const inside = chain('inside', ['a.x.com'], ['10.0.0.0/8']);
  assert.deepEqual(matches(inside, chain('wide', ['*.x.com'])), [
    'inside a.x.com 10.0.0.0/8',
    'wide *.x.com',
    'wide a.x.com',
  ]);
  assert.deepEqual(matches(inside, chain('all', ['*'])), ['inside a.x.com 10.0.0.0/8', 'all any', 'all a.x.com']);
  for (const other of [chain('below', ['*.a.x.com']), chain('all', ['*'], [], 'other server')])
    assert.equal(matches(inside, other).length, 2);
});
