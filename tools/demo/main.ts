/**
 * `npm start`: the demo mesh, live. `npm start -- --once` proves that it does what the samples say, and exits 0 or 1.
 * Whatever ends it (Ctrl-C, SIGTERM, a process of the mesh that dies, a port that is taken), nothing is left running.
 */
import { parseArgs } from 'node:util';
import { createScope, type Owner } from '../../test/harness/index.ts';
import { showLive } from './live.ts';
import { startMesh } from './mesh.ts';
import { proveOnce } from './once.ts';
import { freePlaces, PortTaken, samplePlaces } from './ports.ts';
import { copySamples, SAMPLES } from './samples.ts';

const USAGE = `usage: npm start [-- options]

  (none)        runs the demo mesh over samples/demo until Ctrl-C, and follows every edit there
  --freePorts   the same over a copy of the samples, with ports that are free
  --once        starts it, sends requests, edits a copy of the samples, prints each check, exits 0 or 1
`;

interface Options {
  readonly once: boolean;
  readonly freePorts: boolean;
}

function readOptions(args: readonly string[]): Options | undefined {
  const options = { once: { type: 'boolean' }, freePorts: { type: 'boolean' }, help: { type: 'boolean' } } as const;
  const { values } = parseArgs({ args: [...args], options });
  return values.help === true ? undefined : { once: values.once === true, freePorts: values.freePorts === true };
}

/** Where things listen and what they read: the samples themselves, or a copy that may be edited and moved. */
async function chooseConfiguration(owner: Owner, { once, freePorts }: Options) {
  if (!once && !freePorts) return { places: await samplePlaces(owner), configDir: SAMPLES };
  const { base, places } = await freePlaces(owner);
  return { places, configDir: await copySamples(owner, base) };
}

async function run(owner: Owner, options: Options, signal: AbortSignal): Promise<number> {
  const configuration = await chooseConfiguration(owner, options);
  const progress = (line: string) => void process.stderr.write(`demo: ${line} …\n`);
  const mesh = await startMesh(owner, { ...configuration, signal, progress });
  if (options.once) return await proveOnce(mesh, (line) => process.stdout.write(`${line}\n`), signal);
  await showLive(mesh, process.stdout, signal);
  progress('ending everything');
  return 0;
}

function explain(error: unknown, options: Options): string {
  if (error instanceof PortTaken && !options.once && !options.freePorts)
    return `${error.message}; free it, or run: npm start -- --freePorts`;
  return error instanceof Error ? error.message : String(error);
}

/** How often to look whether the process that started this one is still there, milliseconds. */
const PARENT_CHECK_MS = 500;

/** The parent process may be killed without a chance to pass the signal on: an orphaned demo stops as well. */
function stopWithParent(stopping: AbortController): void {
  const parent = process.ppid;
  const check = () => {
    if (process.ppid !== parent) stopping.abort();
  };
  setInterval(check, PARENT_CHECK_MS).unref();
}

async function main(args: readonly string[]): Promise<number> {
  let options: Options | undefined;
  try {
    options = readOptions(args);
  } catch (error) {
    process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 1;
  }
  if (options === undefined) {
    process.stdout.write(USAGE);
    return 0;
  }
  const stopping = new AbortController();
  // A second signal changes nothing: stopping has deadlines of its own, and cut short it would leave processes behind.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort());
  stopWithParent(stopping);
  // A fault of the demo itself must not leave processes and namespaces behind either.
  let fault: unknown;
  process.on('uncaughtException', (error) => {
    fault ??= error;
    stopping.abort();
  });
  const scope = createScope();
  try {
    const code = await run(scope, options, stopping.signal);
    if (fault === undefined) return code;
    throw fault;
  } catch (error) {
    if (fault !== undefined) {
      process.stderr.write(`demo: ${fault instanceof Error ? fault.stack : String(fault)}\n`);
      return 1;
    }
    // Asked to stop while starting: what failed then is of no interest.
    if (stopping.signal.aborted) return options.once ? 1 : 0;
    process.stderr.write(`demo: ${explain(error, options)}\n`);
    return 1;
  } finally {
    await scope.close();
  }
}

process.exitCode = await main(process.argv.slice(2));
