import assert from 'node:assert/strict';
import { test } from 'node:test';
import { factsOf, matcherOf } from './reach.ts';

const CART = { namespace: 'shop', labels: [{ app: 'cart', version: 'v1' }], hosts: ['cart.shop'] };

const reaches = (match: string, workload: Parameters<typeof factsOf>[0] = CART): boolean =>
  matcherOf(match)(factsOf(workload));

test('conditions that the traffic of a workload cannot fulfil do not reach it', () => {
  for (const match of [
    'destination.namespace == "bank"',
    '"bank" == destination.namespace && request.path == "/"',
    'destination.labels["app"] == "ratings"',
    'destination.labels["app"] | "" == "ratings"',
    '(destination.labels["team"] | "") == "a"',
    '!(destination.labels["app"] == "cart")',
    'destination.namespace != "shop" || destination.labels["version"] != "v1"',
    'context.reporter.kind == "outbound"',
    '(destination.service.host | "unknown") == "other.shop"',
    'false',
  ]) {
    assert.equal(reaches(match), false, match);
  }
});

test('conditions that can be fulfilled, may fail or cannot be decided reach it', () => {
  for (const match of [
    '',
    'true',
    'destination.namespace == "shop"',
    'destination.labels["app"] == "cart" && context.reporter.kind == "inbound"',
    'destination.namespace == "bank" || request.path == "/"',
    // The path may be missing, so that the rule refuses the request.
    'request.headers["x"] == "1" && destination.namespace == "bank"',
    'destination.labels["team"] == "a"',
    'destination.service.host == "other.shop"',
    '(destination.service.host | "unknown") == "cart.shop"',
    // The component may not know the workload.
    '(destination.labels["app"] | "ratings") == "ratings"',
    '(destination.namespace | "bank") == "bank"',
    'destination.labels["app"].startsWith("x")',
    'destination.workload.name == "other"',
    'context.protocol == "tcp"',
    // Wrong for all traffic, and of a manifest.
    'destination.namespace == 1',
    'destination.namespace == "bank" && own.attribute == "a"',
    'destination.namespace == ',
  ]) {
    assert.equal(reaches(match), true, match);
  }
});

test('without knowledge of its services, any service may be that of a workload', () => {
  const { namespace, labels } = CART;
  assert.equal(reaches('(destination.service.host | "") == "other.shop"', { namespace, labels }), true);
});

test('of labels that differ, all count', () => {
  const relabelled = { ...CART, labels: [...CART.labels, { app: 'cart', quarantine: 'yes' }] };
  assert.equal(reaches('(destination.labels["quarantine"] | "") == "yes"', relabelled), true);
  assert.equal(reaches('(destination.labels["quarantine"] | "") == "no"', relabelled), false);
  assert.equal(reaches('destination.labels["app"] == "ratings"', relabelled), false);
  const { labels: _, ...unlabelled } = CART;
  assert.equal(reaches('destination.labels["app"] == "ratings"', unlabelled), true);
});
