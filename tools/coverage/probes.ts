/** The golden tests, and the proxy configurations of agents, as what shows the fields of the schemas. */
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { planAgent } from '../../src/agent/plan.ts';
import { isObject } from '../../src/core/objects.ts';
import { kindOf } from '../../src/resources/kinds/aliases.ts';
import { CORE_KINDS } from '../../src/resources/kinds/kinds.ts';
import { parseMeshConfig, parseMeshNetworks, parseProxyConfig } from '../../src/resources/mesh-config.ts';
import { parseResource } from '../../src/resources/parsing/parse.ts';
import { defaultAgentSettings } from '../../src/settings/index.ts';
import { type GoldenParts, inputOf, readParts } from '../../test/golden-harness/input.ts';
import { outputOf } from '../../test/golden-harness/output.ts';
import type { Path, Setting } from './fields.ts';
import { createProbe, type Outcome, type Probe } from './probe.ts';
import { FIELDS, MESH_CONFIG, MESH_NETWORKS, PROXY_CONFIG } from './schemas.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const GOLDEN = 'test/golden';
/** Proxy configurations, each as a YAML document; what comes of them is the plan of an agent. */
const PROXY_CONFIGS = 'tools/coverage/proxy-configs.yaml';
const CORE: ReadonlySet<string> = new Set(CORE_KINDS);

/** In the order of their names. */
export function allProbes(): readonly Probe[] {
  const goldens = globSync('*/in.yaml', { cwd: join(REPOSITORY, GOLDEN) }).map((file) => dirname(file));
  return [...goldens.sort().map(goldenProbe), agentProbe()];
}

function goldenProbe(name: string): Probe {
  const file = `${GOLDEN}/${name}/in.yaml`;
  return createProbe({ name, file }, readParts(join(REPOSITORY, file)), settingsOfGolden, outcomeOfGolden);
}

function* settingsOfGolden({ documents, golden }: GoldenParts): Iterable<Setting> {
  for (const [index, document] of documents.entries()) {
    if (!isObject(document)) continue;
    const kind = kindOf(String(document.apiVersion), String(document.kind)) ?? '';
    const base = CORE.has(kind) ? [] : ['spec'];
    yield* settingsAt(kind, CORE.has(kind) ? document : document.spec, ['documents', index, ...base]);
  }
  yield* settingsAt(MESH_CONFIG, golden.mesh, ['golden', 'mesh']);
  yield* settingsAt(MESH_NETWORKS, golden.networks, ['golden', 'networks']);
}

function* settingsAt(root: string, value: unknown, base: Path): Iterable<Setting> {
  for (const setting of FIELDS.get(root)?.settings(value) ?? []) {
    yield { ...setting, path: [...base, ...setting.path] };
  }
}

function outcomeOfGolden(parts: GoldenParts): Outcome {
  const { snapshot, proxies } = inputOf(parts);
  const outputs = [...proxies].map(([name, node]) => [name, outputOf(snapshot, node)]);
  return { configuration: JSON.stringify(outputs), reports: JSON.stringify(reportsOf(parts)) };
}

/** Messages to the authors of valid documents. */
function reportsOf({ documents, golden }: GoldenParts): readonly unknown[] {
  const configs = [parseMeshConfig(golden.mesh), parseMeshNetworks(golden.networks)];
  const warnings = documents.map((document) => {
    const { derived: _, cluster: __, ...written } = isObject(document) ? document : {};
    const parsed = parseResource(written, { source: 'golden' }, () => undefined);
    return 'resource' in parsed ? parsed.resource.warnings : undefined;
  });
  return [...configs.map((config) => ('warning' in config ? config.warning : undefined)), ...warnings];
}

function agentProbe(): Probe {
  const documents = parseAllDocuments(readFileSync(join(REPOSITORY, PROXY_CONFIGS), 'utf8'));
  const configs = documents.map((document) => document.toJS() as unknown);
  return createProbe(
    { name: basename(PROXY_CONFIGS, '.yaml'), file: PROXY_CONFIGS },
    configs,
    function* (all) {
      for (const [index, config] of all.entries()) yield* settingsAt(PROXY_CONFIG, config, [index]);
    },
    async (all) => {
      const plans = await Promise.all(all.map(planOf));
      return {
        configuration: JSON.stringify(plans.map(({ warnings: _, ...plan }) => plan)),
        reports: JSON.stringify(plans.map(({ warnings }) => warnings)),
      };
    },
  );
}

async function planOf(config: unknown) {
  const parsed = parseProxyConfig(config);
  if ('problem' in parsed) throw new TypeError(parsed.problem.message);
  const settings = { ip: '192.0.2.1', podName: 'web', podNamespace: 'shop', proxyConfig: JSON.stringify(config) };
  return await planAgent('sidecar', defaultAgentSettings(settings), {}, '');
}
