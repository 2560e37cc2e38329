/** The annotations and labels of Pods, with the golden files of injection that show them. */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parse } from 'yaml';
import { ANNOTATIONS, readAnnotations } from '../../src/webhooks/injection/index.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const FOLDER = 'src/webhooks/injection/golden';

export interface DocumentedAnnotation {
  readonly name: string;
  readonly on: string;
  readonly default: string;
  readonly meaning: string;
  /** Names of the golden files with it; the path is relative to the repository. */
  readonly shownBy: readonly { readonly name: string; readonly path: string }[];
}

/** In the order of their names. */
export function documentedAnnotations(): readonly DocumentedAnnotation[] {
  const files = globSync('*.yaml', { cwd: join(REPOSITORY, FOLDER) }).filter((file) => !file.includes('.injected.'));
  const cases = files.sort().map((file) => {
    const { pod } = parse(readFileSync(join(REPOSITORY, FOLDER, file), 'utf8'));
    const options = new Set(Object.keys(readAnnotations(pod.metadata).options));
    return { name: basename(file, '.yaml'), path: `${FOLDER}/${file}`, options };
  });
  return Object.entries(ANNOTATIONS)
    .map(([option, { name, on, default: fallback, meaning }]) => ({
      name,
      on,
      default: fallback,
      meaning,
      shownBy: cases.filter(({ options }) => options.has(option)),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
