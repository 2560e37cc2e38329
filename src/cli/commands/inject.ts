/**
 * `inject -f FILE`: adds the sidecar to the Pods of manifests, as the webhook does, for clusters without it. The
 * variables are those of the discovery service.
 */
import { writeFile } from 'node:fs/promises';
import { CtlError } from '../../core/errors.ts';
import {
  discoveryEnv,
  discoveryFlags,
  discoveryInjectFlags,
  type Environment,
  flagAndEnvSettings,
  flagSettings,
  parseFlags,
  usageError,
} from '../../settings/index.ts';
import type { InjectedManifests } from '../../webhooks/manifests/index.ts';
import { inputText } from '../input-file.ts';
import { type Command, command } from '../program.ts';

/** Bytes; the largest charts have less. */
const MAX_BYTES = 16 * 1024 * 1024;

export function injectCommand(): Command {
  return command({
    name: 'inject',
    summary: 'Add the sidecar to the Pods of manifests, without a webhook.',
    flags: discoveryInjectFlags,
    async run({ flags, io }) {
      const given = flagSettings(discoveryInjectFlags, flags);
      if (given.file.length === 0 || given.file.includes('')) throw usageError('inject needs --file');
      const { createInjector, injectManifests } = await import('../../webhooks/manifests/index.ts');
      const injector = createInjector(await settingsOf(given, io.env));
      const results: InjectedManifests[] = [];
      for (const name of new Set(given.file)) {
        const text = await textOf(name);
        const file = name === '-' ? 'standard input' : name;
        results.push(injectManifests({ text, file, namespace: given.namespace, injector }));
      }
      for (const note of results.flatMap(({ notes }) => notes)) io.stderr.write(`${note}\n`);
      const text = joined(results.map((result) => result.text));
      if (given.output === '') io.stdout.write(text);
      else await writeFile(given.output, text);
      return 0;
    },
  });
}

/** Several files as one. */
function joined([first = '', ...others]: readonly string[]): string {
  return others.reduce((before, text) => `${before}${/(^|\n)$/.test(before) ? '' : '\n'}---\n${text}`, first);
}

type InjectFlags = ReturnType<typeof flagSettings<typeof discoveryInjectFlags>>;

/** The settings that the discovery service would have, with the given files. */
async function settingsOf({ injectConfigFile, meshConfigFile, revision, valuesFile }: InjectFlags, env: Environment) {
  const { injectionSettings } = await import('../../discovery/config/webhook-settings.ts');
  const program = flagAndEnvSettings(discoveryFlags, parseFlags([], discoveryFlags), discoveryEnv, env);
  const [config, values, mesh] = await Promise.all([
    configText(injectConfigFile),
    configText(valuesFile),
    meshConfig(meshConfigFile),
  ]);
  const settings = revision === '' ? program : { ...program, revision };
  return injectionSettings(settings, mesh, { config, values });
}

async function configText(file: string) {
  return file === '' ? undefined : { text: await textOf(file), origin: file };
}

async function meshConfig(file: string) {
  const { defaultMeshConfig, parseMeshConfig } = await import('../../resources/index.ts');
  if (file === '') return defaultMeshConfig();
  const { parseConfigText } = await import('../../sources/index.ts');
  const parsed = parseConfigText(await textOf(file), parseMeshConfig);
  if ('value' in parsed) return parsed.value;
  const { field, message, line } = parsed.refusal;
  throw new CtlError('invalid_argument', message, { file, ...(line === undefined ? {} : { line }), field });
}

const textOf = (file: string): Promise<string> => inputText(file, MAX_BYTES);
