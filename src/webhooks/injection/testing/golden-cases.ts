/**
 * The golden files of injection: `golden/NAME.yaml` has a Pod and the settings of injection,
 * `golden/NAME.injected.yaml` the injected Pod. `UPDATE_GOLDEN=1 npm test -- unit injection/golden` rewrites the
 * latter; review them like code.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { Injected, InjectionParameters, InjectionSettings, PodObject } from '../../types.ts';
import { createInjector } from '../index.ts';
import { SETTINGS } from './settings.ts';

export interface GoldenCase {
  readonly name: string;
  readonly parameters: InjectionParameters;
  readonly settings: Partial<InjectionSettings>;
  /** Whether restricted Pod Security admits the result. */
  readonly restricted: boolean;
  readonly pod: PodObject;
}

/** The content of a golden result. */
export type GoldenResult =
  | { readonly warnings?: readonly string[]; readonly pod: PodObject }
  | { readonly skipped: string };

const FOLDER = join(import.meta.dirname, '../golden');
const RESULT = '.injected.yaml';

/** The namespace of the Pods. */
export const GOLDEN_NAMESPACE = 'shop';

export function goldenCases(): readonly GoldenCase[] {
  const files = globSync('*.yaml', { cwd: FOLDER }).filter((file) => !file.endsWith(RESULT));
  return files.sort().map((file) => {
    const { config, values, proxyConfig, revision, parameters, restricted, pod } = parse(
      readFileSync(join(FOLDER, file), 'utf8'),
    ) as Record<string, unknown>;
    const text = (value: unknown, origin: string) => ({ text: String(value), origin });
    return {
      name: basename(file, '.yaml'),
      parameters: (parameters ?? {}) as InjectionParameters,
      settings: {
        ...(config === undefined ? {} : { config: text(config, 'config') }),
        ...(values === undefined ? {} : { values: text(values, 'values') }),
        ...(proxyConfig === undefined ? {} : { proxyConfig: proxyConfig as InjectionSettings['proxyConfig'] }),
        ...(revision === undefined ? {} : { revision: String(revision) }),
      },
      restricted: restricted === true,
      pod: pod as PodObject,
    };
  });
}

export function injectGolden({ pod, settings, parameters }: GoldenCase): Injected {
  return createInjector({ ...SETTINGS, ...settings }).inject(pod, GOLDEN_NAMESPACE, parameters);
}

export function goldenResultFile(name: string): string {
  return join(FOLDER, `${name}${RESULT}`);
}

export function goldenResult(name: string): GoldenResult {
  return parse(readFileSync(goldenResultFile(name), 'utf8')) as GoldenResult;
}

export function resultText(result: Injected): string {
  if (result.kind === 'skipped') return stringify({ skipped: result.reason });
  const { pod, warnings } = result;
  const content = warnings.length === 0 ? { pod } : { warnings, pod };
  return stringify(content, { lineWidth: 0, aliasDuplicateObjects: false });
}
