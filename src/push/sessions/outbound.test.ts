import assert from 'node:assert/strict';
import { it } from 'node:test';
import { inboundView } from '../../generate/testing/listeners.ts';
import { outboundView } from '../../generate/testing/views.ts';
import { Outbound } from './outbound.ts';

it('what a proxy can do follows the views that it has, and before it has any those that it moves to', () => {
  const views = (capabilities = outboundView().capabilities) =>
    [inboundView(), outboundView({ capabilities })].map((view) => ({ view: { view } }));
  const onDemand = { ...outboundView().capabilities, onDemand: 'on-demand' } as const;
  const [first, second] = [views(), views(onDemand)];
  const outbound = new Outbound();
  assert.equal(outbound.capabilities([], undefined), undefined);
  assert.equal(outbound.capabilities([], second), onDemand);
  assert.equal(outbound.capabilities(first, second)?.onDemand, undefined);
  assert.equal(outbound.capabilities(second, undefined), onDemand);
  assert.equal(outbound.capabilities([], undefined), undefined);
});
