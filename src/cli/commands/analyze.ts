/**
 * `analyze [FILE|DIRECTORY]`: what is probably wrong in documents before they are applied, or in the mesh of a running
 * discovery service.
 */
import type { Level, ShownFinding } from '../../analysis/index.ts';
import { discoveryAnalyzeFlags, flagSettings } from '../../settings/index.ts';
import { debugClient, withLists } from '../debug-client.ts';
import { inputText } from '../input-file.ts';
import { formatted, printable } from '../output/index.ts';
import { type Command, command, type ProgramIo } from '../program.ts';

/** Bytes; the objects of a large cluster have less. */
const MAX_INPUT_BYTES = 256 * 1024 * 1024;
/** As `kubectl diff` and `istioctl analyze`: 1 is a mistake in the call. */
const FOUND = 2;

interface Page {
  readonly findings: readonly ShownFinding[];
  /** Findings that were left out because there are very many. */
  readonly omitted: number;
}

type Settings = ReturnType<typeof flagSettings<typeof discoveryAnalyzeFlags>>;

export function analyzeCommand(): Command {
  return command({
    name: 'analyze',
    summary: 'List probable mistakes in documents, or in the mesh of a running discovery service.',
    flags: discoveryAnalyzeFlags,
    arguments: ['[<file or directory>]'],
    async run({ flags, io }) {
      const settings = flagSettings(discoveryAnalyzeFlags, flags);
      const paths = [...flags.positionals, ...settings.file];
      const { findings: all, omitted } =
        paths.length === 0 ? await ofService(settings, io) : await ofFiles(settings, paths, io);
      const { LEVELS } = await import('../../analysis/index.ts');
      const { namespace } = settings;
      const findings = namespace === '' ? all : all.filter(({ resource }) => resource.namespace === namespace);
      const severity = (level: Level): number => LEVELS.indexOf(level);
      const sorted = findings.toSorted((a, b) => severity(a.level) - severity(b.level));
      const { output } = settings;
      const lines = sorted.map(line).join('');
      io.stdout.write(output === 'table' ? lines : await formatted({ findings: sorted }, output, () => []));
      if (omitted > 0) io.stderr.write(`${omitted} more findings are not shown\n`);
      if (output === 'table' && sorted.length === 0) io.stderr.write('nothing found\n');
      const levels: readonly string[] = LEVELS;
      const counted = levels.slice(0, levels.indexOf(settings.failureThreshold) + 1);
      return sorted.some(({ level }) => counted.includes(level)) ? FOUND : 0;
    },
  });
}

async function ofService({ httpAddr }: Settings, { env }: ProgramIo): Promise<Page> {
  const client = await debugClient(httpAddr, env);
  return withLists<Page>(await client.page('analysisz'), client, 'findings');
}

async function ofFiles(settings: Settings, paths: readonly string[], io: ProgramIo): Promise<Page> {
  const { analyzeFiles } = await import('../analyze/files.ts');
  return analyzeFiles({ ...settings, paths, env: io.env, readInput: () => inputText('-', MAX_INPUT_BYTES) });
}

function line({ code, level, message, resource, origin }: ShownFinding): string {
  const { kind, namespace, name } = resource;
  const where = origin === '' ? '' : ` ${origin}`;
  const text = `${level} [${code}] (${kind} ${namespace === '' ? name : `${namespace}/${name}`}${where}) ${message}`;
  // Without characters that control a terminal.
  return `${printable(text, ' ')}\n`;
}
