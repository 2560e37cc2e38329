/**
 * `npm run build`: bundles the programs and their workers into `dist/`, with their npm packages and the generated
 * protobuf code. `npm run build -- FOLDER` writes to a new folder inside the repository. Builds are reproducible: the
 * same commit gives the same bytes.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type BuildOptions, build, type Plugin, transform } from 'esbuild';
import packageJson from '../package.json' with { type: 'json' };
import { COMPILED, type WorkerName } from '../src/paths.ts';
import { PATCHED_TYPES, withDecodersOf } from './checks/decoders.ts';
import { bundlePages } from './pages/bundle.ts';

const REPOSITORY = join(import.meta.dirname, '..');
const [, , FOLDER] = process.argv;
const DIST = FOLDER === undefined ? join(REPOSITORY, 'dist') : resolve(FOLDER);
const PROGRAMS = ['ctl-discovery', 'ctl-agent', 'ctl-jwt'];
const WORKERS: readonly WorkerName[] = ['admit', 'generate', 'policy', 'sign'];

/** The output of git; undefined when git fails, for example outside a repository. */
function git(...args: readonly string[]): string | undefined {
  try {
    return execFileSync('git', [...args], {
      cwd: REPOSITORY,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return undefined;
  }
}

/**
 * The text that `src/core/build-info.ts` reads. `date` is the date of the commit, for reproducible builds. Where there
 * is not a repository, as in the build of an image, the variable BUILD_REVISION names the commit.
 */
function buildStamp(): string {
  const { BUILD_REVISION } = process.env;
  const changes = git('status', '--porcelain', '--untracked-files=no');
  return JSON.stringify({
    revision: git('rev-parse', 'HEAD') ?? BUILD_REVISION ?? 'unknown',
    date: git('show', '--no-patch', '--format=%cI', 'HEAD') ?? 'unknown',
    status: changes === '' || (changes === undefined && BUILD_REVISION !== undefined) ? 'Clean' : 'Modified',
    tag: git('describe', '--tags', '--exact-match') ?? packageJson.version,
  });
}

/**
 * Minifies the generated protobuf code, which is most of a bundle: every thread keeps its text in memory. `decoded`
 * names the messages whose decoders are kept; by default those of all.
 */
function generatedCode(decoded?: readonly string[]): Plugin {
  return {
    name: 'generated-code',
    setup({ onLoad }) {
      onLoad({ filter: /\/proto\/gen\/(envoy|agent)\.js$/ }, async ({ path }) => {
        const text = readFileSync(path, 'utf8');
        const needed = decoded === undefined ? text : withDecodersOf(decoded, text);
        const { code } = await transform(needed, { minify: true, format: 'esm' });
        return { contents: code, loader: 'js' };
      });
    },
  };
}

/**
 * An `import` of node:http reads all of its exports, and for one of them Node loads an HTTP client: 60 ms. As an object
 * it loads only what is used.
 */
const LAZY_HTTP: Plugin = {
  name: 'lazy-http',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^node:https?$/ }, ({ path }) => ({ path, namespace: 'lazy-http' }));
    onLoad({ filter: /./, namespace: 'lazy-http' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
      loader: 'js',
    }));
  },
};

/**
 * Stores the compiled code of modules, which saves 0.15 s of CPU time at start. Node uses it only with the same version
 * of Node, the same kind of processor and the same user; otherwise it compiles the modules.
 */
function compileAhead(files: readonly string[]): void {
  const loadAll = 'for (const file of process.argv.slice(1)) await import(file);';
  const env = { ...process.env, NODE_COMPILE_CACHE: join(DIST, COMPILED), NODE_COMPILE_CACHE_PORTABLE: '1' };
  execFileSync(process.execPath, ['--input-type=module', '--eval', loadAll, ...files], { env });
}

/** Chunks are in the folder of the entries, so that `toDist` is right for every module of a bundle. */
function options(entryPoints: readonly string[], outdir: string, toDist: string, stamp: string): BuildOptions {
  return {
    absWorkingDir: REPOSITORY,
    entryPoints: [...entryPoints],
    outdir,
    bundle: true,
    // Without splitting, the imports of a program would be hoisted above its check of the Node version.
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    // Bundled packages make the start faster. piscina finds its worker beside its own file, so it is not bundled.
    packages: 'bundle',
    external: ['piscina'],
    // For packages in CommonJS.
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module';const require = requireFrom(import.meta.url);",
    },
    sourcemap: 'linked',
    // Threads keep the text of modules in memory. Names are not minified, for stack traces.
    minifyWhitespace: true,
    metafile: true,
    logLevel: 'warning',
    plugins: [generatedCode(), LAZY_HTTP],
    define: { MESHD_BUILD: JSON.stringify(stamp), MESHD_DIST: JSON.stringify(toDist) },
  };
}

async function main(): Promise<void> {
  if (FOLDER === undefined) rmSync(DIST, { recursive: true, force: true });
  else if (existsSync(DIST)) throw new Error(`${DIST} exists already`);
  const stamp = buildStamp();
  const parts = new Map<string, readonly string[]>();
  for (const name of PROGRAMS) {
    const { metafile } = await build(options([`src/${name}.ts`], DIST, './', stamp));
    const outputs = Object.entries(metafile?.outputs ?? {}).filter(([path]) => path.endsWith('.js'));
    // Loading the entry would run the program.
    parts.set(
      name,
      outputs.filter(([, { entryPoint }]) => entryPoint !== `src/${name}.ts`).map(([path]) => join(REPOSITORY, path)),
    );
  }
  for (const name of WORKERS) {
    const workerOptions = options([`workers/${name}.ts`], join(DIST, 'workers'), '../', stamp);
    // Generation decodes only what EnvoyFilters patch.
    await build(name === 'generate' ? { ...workerOptions, plugins: [generatedCode(PATCHED_TYPES)] } : workerOptions);
  }
  await bundlePages(join(DIST, 'pages'));
  compileAhead(parts.get('ctl-discovery') ?? []);
  // Each in its own process, because V8 stores code for the modules that are loaded together.
  for (const name of WORKERS) compileAhead([join(DIST, 'workers', `${name}.js`)]);
  for (const name of PROGRAMS) chmodSync(join(DIST, `${name}.js`), 0o755);
  process.stdout.write(
    `built ${[...PROGRAMS, ...WORKERS.map((name) => `workers/${name}`)].join(', ')} in ${FOLDER ?? 'dist'}/\n`,
  );
}

main().catch((error: unknown) => {
  // esbuild has printed the errors with their locations.
  const built = typeof error === 'object' && error !== null && 'errors' in error;
  if (!built) process.stderr.write(`build: ${String(error)}\n`);
  process.exitCode = 1;
});
