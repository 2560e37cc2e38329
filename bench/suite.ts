/** All benches by name, and how a list of them is run. */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createScope } from '../test/harness/owner.ts';
import { agent } from './benches/agent.ts';
import { canaries } from './benches/canaries.ts';
import { churn } from './benches/churn.ts';
import { cold } from './benches/cold.ts';
import { consul } from './benches/consul.ts';
import { convergence } from './benches/convergence.ts';
import { delegate } from './benches/delegate.ts';
import { diff } from './benches/diff.ts';
import { dns } from './benches/dns.ts';
import { encode } from './benches/encode.ts';
import { envoyFilter } from './benches/envoy-filter.ts';
import { fanOut } from './benches/fan-out.ts';
import { growth } from './benches/growth.ts';
import { kubernetes } from './benches/kubernetes.ts';
import { mcp } from './benches/mcp.ts';
import { memoryPerProxy } from './benches/memory.ts';
import { model } from './benches/model.ts';
import { neighbours } from './benches/neighbours.ts';
import { onDemand } from './benches/on-demand.ts';
import { pages } from './benches/pages.ts';
import { policy } from './benches/policy.ts';
import { pushLatency } from './benches/push-latency.ts';
import { reconnect } from './benches/reconnect.ts';
import { scope } from './benches/scope.ts';
import { sign } from './benches/sign.ts';
import { slow } from './benches/slow.ts';
import { telemetry } from './benches/telemetry.ts';
import { webhooks } from './benches/webhooks.ts';
import type { Bench } from './mesh.ts';
import { type BenchOptions, modeText } from './options.ts';
import { profileTables } from './report/profile.ts';
import type { Outcome, Table } from './results.ts';
import { programFor, programOf } from './server.ts';
import { runByTurns } from './turns.ts';

export const BENCHES: readonly Bench[] = [
  cold,
  convergence,
  reconnect,
  churn,
  slow,
  pushLatency,
  encode,
  model,
  sign,
  fanOut,
  scope,
  envoyFilter,
  telemetry,
  onDemand,
  delegate,
  diff,
  canaries,
  pages,
  memoryPerProxy,
  growth,
  agent,
  dns,
  kubernetes,
  mcp,
  consul,
  webhooks,
  policy,
  neighbours,
];

/** Throws for an unknown name. */
export function chooseBenches(names: readonly string[]): readonly Bench[] {
  for (const name of names)
    if (!BENCHES.some((bench) => bench.name === name))
      throw new Error(`no bench ${name}; there are ${BENCHES.map((bench) => bench.name).join(', ')}`);
  return names.length === 0 ? BENCHES : BENCHES.filter(({ name }) => names.includes(name));
}

export interface SuiteResult {
  readonly outcomes: readonly Outcome[];
  readonly profiles: readonly Table[];
  /** `name: message` of benches that failed. The others ran nevertheless. */
  readonly failures: readonly string[];
}

export interface SuiteOptions {
  readonly benches: readonly Bench[];
  readonly runs: readonly BenchOptions[];
  readonly progress: (text: string) => void;
}

/** Runs benches one after the other, each protocol in turn. */
export async function runBenches({ benches, runs, progress }: SuiteOptions): Promise<SuiteResult> {
  const scopeOfRun = createScope();
  const outcomes: Outcome[] = [];
  const failures: string[] = [];
  const [first] = runs;
  if (first === undefined) return { outcomes, failures, profiles: [] };
  const profiles = first.profile ? join(first.out, 'profiles') : undefined;
  try {
    if (profiles !== undefined) {
      await rm(profiles, { recursive: true, force: true });
      await mkdir(profiles, { recursive: true });
    }
    const program = await programFor(scopeOfRun, first);
    const { against, turns: count } = first;
    const turns = against === '' ? undefined : { program: programOf(against), count };
    for (const options of runs)
      for (const bench of benches) {
        const { name } = bench;
        // Encoding, the model, DNS and the agent do not depend on the protocol.
        const once = [encode.name, model.name, agent.name, dns.name, sign.name, kubernetes.name];
        if (once.includes(name) && options !== first) continue;
        const say = (text: string): void => progress(`${name} ${modeText(options)}: ${text}`);
        if (bench.inProcess && turns !== undefined) {
          say('SKIPPED: it measures modules of this checkout, not a program');
          continue;
        }
        const context = { options, program, profiles, progress: say };
        try {
          const outcome = await (turns === undefined ? bench.run(context) : runByTurns(bench, context, turns));
          outcomes.push(outcome);
          failures.push(...(outcome.failures ?? []).map((failure) => `${name} ${modeText(options)}: ${failure}`));
        } catch (error) {
          const message = error instanceof Error ? error.message : String(error);
          failures.push(`${name} ${modeText(options)}: ${message}`);
          say(`FAILED: ${message.split('\n')[0]}`);
        }
      }
    return { outcomes, failures, profiles: profiles === undefined ? [] : profileTables(profiles) };
  } finally {
    await scopeOfRun.close();
  }
}
