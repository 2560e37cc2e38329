/**
 * What hostile callers and tenants do to honest proxies of other namespaces: for each scenario a row without and a row
 * with the disturbance, of the same server.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Owner } from '../../test/harness/owner.ts';
import { startAsked } from '../client/child.ts';
import { startClient } from '../client/client.ts';
import { quiet } from '../counters.ts';
import { type Bench, type BenchContext, complete, joinProxies, type Mesh, memory, withMesh } from '../mesh.ts';
import { SCENARIOS } from '../neighbours/index.ts';
import { type Assignment, HOSTILE, type Scenario } from '../neighbours/scenario.ts';
import { type Phase, Stage } from '../neighbours/stage.ts';
import { hostileService } from '../neighbours/tenant.ts';
import { latencyOf, type Row } from '../results.ts';
import { namespaceName } from '../world/world.ts';

/** The process of hostile callers. */
const CALLERS = join(import.meta.dirname, '../neighbours/callers-main.ts');
/** Proxies of the hostile tenant. */
const TENANT_PROXIES = 5;
const TENANT_ADDRESS = '127.2.1.1';
/** From the first call of hostile callers to the first measured change, ms. */
const HEAD_START_MS = 1000;

/** Connects honest proxies: those of each namespace are a caller of their own. */
async function joinHonest(context: BenchContext, mesh: Mesh): Promise<void> {
  const indexes = Array.from({ length: mesh.size.namespaces }, (_, index) => index);
  await joinProxies(context, mesh, {
    namespaces: indexes.map(namespaceName),
    addresses: indexes.map((index) => `127.1.${index >> 8}.${index & 255}`),
  });
}

/** Connects the few proxies of the hostile tenant, who has a service of its own. */
async function joinTenant(context: BenchContext, { world, size, server }: Mesh, owner: Owner): Promise<void> {
  await world.apply({ path: `${HOSTILE}/service.yaml`, text: hostileService(), expect: [] });
  const client = startClient(owner);
  const place = { port: server.ports.grpc, namespaces: [HOSTILE], addresses: [TENANT_ADDRESS] };
  const { mode, content } = size;
  await client.do({ op: 'open', ...place, mode, content, count: TENANT_PROXIES, slow: 0 });
  complete(await client.do({ op: 'synced', timeoutMs: context.options.timeoutMs }), 'the first configuration');
}

async function measure(context: BenchContext, scenario: Scenario): Promise<Row[]> {
  const webhooks = scenario.measured === 'injection';
  return withMesh(context, { webhooks }, async (mesh, owner) => {
    await joinHonest(context, mesh);
    if (scenario.document !== undefined) await joinTenant(context, mesh, owner);
    const stage = new Stage(context, mesh, scenario);
    context.progress(`undisturbed, before: ${scenario.about}`);
    for (let round = 0; round < context.options.warmUp; round++) await stage.phase();
    await quiet(mesh);
    const before = rowOf(mesh, scenario, 'undisturbed', await stage.phase());
    await quiet(mesh);
    context.progress(scenario.about);
    if (scenario.callers !== undefined) {
      const { grpc: grpcPort, https: httpsPort } = mesh.server.ports;
      const target = { grpcPort, httpsPort, load: context.options.load };
      await startAsked<Assignment, 'begun'>(owner, CALLERS).ask({ scenario: scenario.name, target });
      await delay(HEAD_START_MS);
    }
    return [before, rowOf(mesh, scenario, 'disturbed', await stage.phase(scenario.document))];
  });
}

function rowOf(mesh: Mesh, { name, measured }: Scenario, state: string, phase: Phase): Row {
  const { latencies, readyMs, cpu, seconds, note } = phase;
  return {
    bench: 'neighbours',
    what: `${name}: ${measured}, ${state}`,
    size: mesh.size,
    ...latencyOf(latencies),
    serverCpu: cpu,
    ...memory(mesh),
    readyMs,
    note: `${note} in ${seconds.toFixed(1)} s`,
  };
}

export const neighbours: Bench = {
  name: 'neighbours',
  about: 'what honest proxies notice of hostile callers and tenants; CPU s is that of the whole phase',
  async run(context) {
    const { only } = context.options;
    const chosen = SCENARIOS.filter(({ name }) => only.length === 0 || only.some((part) => name.includes(part)));
    const rows: Row[] = [];
    const failures: string[] = [];
    for (const scenario of chosen)
      try {
        rows.push(...(await measure(context, scenario)));
      } catch (error) {
        failures.push(`${scenario.name}: ${error instanceof Error ? error.message : String(error)}`);
      }
    return { rows, failures };
  },
};
