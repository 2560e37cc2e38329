/** Bundles the page application of the introspection address (`pages/`) into three files. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const PAGES = join(import.meta.dirname, '../../pages');

/** Writes index.html, app.js and app.css to a folder. */
export async function bundlePages(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await build({
    absWorkingDir: PAGES,
    entryPoints: { app: 'main.tsx' },
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'warning',
    tsconfig: join(PAGES, 'tsconfig.json'),
  });
  copyFileSync(join(PAGES, 'index.html'), join(folder, 'index.html'));
}
