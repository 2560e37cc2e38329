/**
 * `npm run build`: bundles the programs and their workers into `dist/`, with their npm packages and the generated
 * protobuf code; `npm run build -- FOLDER` into another folder, which is to be new and below this one, where packages
 * are found. The same commit gives the same bytes: nothing of the clock or the machine goes in.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type BuildOptions, build, type Plugin, transform } from 'esbuild';
import packageJson from '../../package.json' with { type: 'json' };
import { COMPILED, type WorkerName } from '../paths.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const [, , FOLDER] = process.argv;
const DIST = FOLDER === undefined ? join(REPOSITORY, 'dist') : resolve(FOLDER);
const PROGRAMS = ['ctl-discovery', 'ctl-agent', 'ctl-jwt'];
const WORKERS: readonly WorkerName[] = ['generate', 'sign'];

/** What git says, or undefined outside a repository or when git has no answer. */
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

/** The text that `src/core/build-info.ts` reads. `date` is the commit's, so that a rebuild gives the same bytes. */
function buildStamp(): string {
  const changes = git('status', '--porcelain', '--untracked-files=no');
  return JSON.stringify({
    revision: git('rev-parse', 'HEAD') ?? 'unknown',
    date: git('show', '--no-patch', '--format=%cI', 'HEAD') ?? 'unknown',
    status: changes === '' ? 'Clean' : 'Modified',
    tag: git('describe', '--tags', '--exact-match') ?? packageJson.version,
  });
}

/** The generator's form of a decoder, from its head to the line that closes it at the same indentation. */
const DECODER = /^( *)\w+\.decode = function[\s\S]*?\n\1\};\n/gm;

/**
 * The generated protobuf code, which is most of a bundle, made small: every thread that loads it keeps its text in
 * memory.
 */
function generatedCode(decoders: boolean): Plugin {
  return {
    name: 'generated-code',
    setup({ onLoad }) {
      onLoad({ filter: /\/proto\/gen\/envoy\.js$/ }, async ({ path }) => {
        const text = readFileSync(path, 'utf8');
        const { code } = await transform(decoders ? text : text.replace(DECODER, ''), { minify: true, format: 'esm' });
        return { contents: code, loader: 'js' };
      });
    },
  };
}

/**
 * An `import` of node:http asks for all that it exports, among it what Node loads a whole HTTP client for: 60 ms. Taken
 * as an object, only what is used is asked for.
 */
const LAZY_HTTP: Plugin = {
  name: 'lazy-http',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^node:http$/ }, ({ path }) => ({ path, namespace: 'lazy-http' }));
    onLoad({ filter: /./, namespace: 'lazy-http' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
      loader: 'js',
    }));
  },
};

/**
 * Keeps what V8 makes of modules when it compiles them: a service that starts loads that instead, 0.15 CPU s less. Node
 * takes it from there as long as it is the same Node on the same kind of processor, and the user is who built;
 * otherwise it compiles.
 */
function compileAhead(files: readonly string[]): void {
  const loadAll = 'for (const file of process.argv.slice(1)) await import(file);';
  const env = { ...process.env, NODE_COMPILE_CACHE: join(DIST, COMPILED), NODE_COMPILE_CACHE_PORTABLE: '1' };
  execFileSync(process.execPath, ['--input-type=module', '--eval', loadAll, ...files], { env });
}

/** Chunks stand beside the entries, so that `toDist` holds for every module of one bundle. */
function options(entryPoints: readonly string[], outdir: string, toDist: string, stamp: string): BuildOptions {
  return {
    absWorkingDir: REPOSITORY,
    entryPoints: [...entryPoints],
    outdir,
    bundle: true,
    // Without splitting, a program's imports would be hoisted above its check of the Node version.
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    // What starts reads a few files instead of hundreds. A pool of threads finds its own worker beside its own file.
    packages: 'bundle',
    external: ['piscina'],
    // For packages in CommonJS.
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module';const require = requireFrom(import.meta.url);",
    },
    sourcemap: 'linked',
    // Threads keep the text of what they load. Names stay, for stack traces.
    minifyWhitespace: true,
    metafile: true,
    logLevel: 'warning',
    plugins: [generatedCode(true), LAZY_HTTP],
    define: { MESHD_BUILD: JSON.stringify(stamp), MESHD_DIST: JSON.stringify(toDist) },
  };
}

async function main(): Promise<void> {
  if (FOLDER === undefined) rmSync(DIST, { recursive: true, force: true });
  else if (existsSync(DIST)) throw new Error(`${DIST} is there already`);
  const stamp = buildStamp();
  const parts = new Map<string, readonly string[]>();
  for (const name of PROGRAMS) {
    const { metafile } = await build(options([`src/${name}.ts`], DIST, './', stamp));
    const outputs = Object.entries(metafile?.outputs ?? {}).filter(([path]) => path.endsWith('.js'));
    // The entry itself would run the program.
    parts.set(
      name,
      outputs.filter(([, { entryPoint }]) => entryPoint !== `src/${name}.ts`).map(([path]) => join(REPOSITORY, path)),
    );
  }
  for (const name of WORKERS) {
    const workerOptions = options([`workers/${name}.ts`], join(DIST, 'workers'), '../', stamp);
    // Generation encodes and never decodes, so that each of its threads does without the larger half of the code.
    await build(name === 'generate' ? { ...workerOptions, plugins: [generatedCode(false)] } : workerOptions);
  }
  compileAhead(parts.get('ctl-discovery') ?? []);
  // By themselves: a worker that has been loaded changes what V8 takes for the same circumstances.
  for (const name of WORKERS) compileAhead([join(DIST, 'workers', `${name}.js`)]);
  for (const name of PROGRAMS) chmodSync(join(DIST, `${name}.js`), 0o755);
  process.stdout.write(
    `built ${[...PROGRAMS, ...WORKERS.map((name) => `workers/${name}`)].join(', ')} in ${FOLDER ?? 'dist'}/\n`,
  );
}

main().catch((error: unknown) => {
  // esbuild has printed what does not build, with its place; a stack trace of esbuild itself adds nothing.
  const built = typeof error === 'object' && error !== null && 'errors' in error;
  if (!built) process.stderr.write(`build: ${String(error)}\n`);
  process.exitCode = 1;
});
