/**
 * Runs test files in a network namespace of their own, where 10.244.0.0/16 is local: the API server of Kubernetes
 * refuses endpoints with loopback addresses, and tests may not take an address of the host.
 */
import { canOwnNetwork, ownNetwork } from '../../test/harness/index.ts';
import { runTestsWithin } from './beside.ts';
import { type Outcome, runTests, type TestRun } from './files.ts';

/**
 * Runs files as `runTests` does: in a network namespace, or in the network of the host without permission to create
 * one.
 */
export function runTestsInOwnNetwork(run: TestRun): Promise<Outcome> {
  return canOwnNetwork() ? runTestsWithin(run, ownNetwork) : runTests(run);
}
