/**
 * `diff [-f FILE… | --configDir DIR]`: asks a discovery service what a change of documents would do, without doing it.
 * The exit code is 1 when a document of the change is refused.
 */
import type { PreviewAnswer } from '../../preview/index.ts';
import { discoveryDiffFlags, flagSettings, usageError } from '../../settings/index.ts';
import { debugClient, withLists } from '../debug-client.ts';
import { linesOfDirectory, linesOfFiles } from '../diff/files.ts';
import { diffText } from '../diff/table.ts';
import { formatted } from '../output/index.ts';
import { type Command, command } from '../program.ts';

export function diffCommand(): Command {
  return command({
    name: 'diff',
    summary: 'Show what a change of documents would do to proxies, without doing it.',
    flags: discoveryDiffFlags,
    async run({ flags, io }) {
      const { httpAddr, file, configDir, output } = flagSettings(discoveryDiffFlags, flags);
      if ((file.length === 0) === (configDir === '')) throw usageError('diff needs --file or --configDir');
      const lines =
        configDir === ''
          ? await linesOfFiles(new Set(file))
          : [JSON.stringify({ replaceDirectory: true }), ...(await linesOfDirectory(configDir))];
      const client = await debugClient(httpAddr, io.env);
      const posted = await client.post('diffz', `${lines.join('\n')}\n`);
      const answer = withLists<PreviewAnswer>(
        posted,
        client,
        'documents',
        'unreachedRoutes',
        'policies',
        'problems',
        'notes',
      );
      io.stdout.write(output === 'table' ? diffText(answer) : await formatted(answer, output, () => []));
      return answer.documents.some(({ effect }) => effect === 'refused') ? 1 : 0;
    },
  });
}
