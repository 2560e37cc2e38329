/**
 * Sidecars that ask for what they use beside those that get everything: a real Envoy, and fleets of simulated proxies.
 */
import type { Bench } from '../mesh.ts';
import { realEnvoys } from '../on-demand/envoy.ts';
import { fleets, PARTS } from '../on-demand/fleet.ts';
import type { Table } from '../results.ts';

const ALL = ['envoy', ...PARTS] as const;

export const onDemand: Bench = {
  name: 'on-demand',
  about: `proxies that ask for what they use beside those that get everything; --only ${ALL.join(', ')}`,
  run: async (context) => {
    const { only } = context.options;
    const parts = new Set(ALL.filter((part) => only.length === 0 || only.includes(part)));
    const tables: Table[] = [];
    if (parts.delete('envoy')) tables.push(await realEnvoys(context));
    if (parts.size > 0) tables.push(await fleets(context, parts));
    return { rows: [], tables };
  },
};
