/**
 * The images of the Dockerfile without a container runtime: the files that its instructions copy, in a folder that is
 * the whole file system of a process. Base images are reduced to the shared libraries that the programs need.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, readFile, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Child, envoyPath, type Owner, startChild, tempDir } from '../../harness/index.ts';

const REPOSITORY = join(import.meta.dirname, '../../..');
export const DOCKERFILE = join(REPOSITORY, 'Dockerfile');

interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** The instructions of each stage, by its name. */
async function stages(): Promise<ReadonlyMap<string, readonly Instruction[]>> {
  const text = (await readFile(DOCKERFILE, 'utf8')).replace(/^#.*\n/gm, '').replace(/\\\n/g, ' ');
  const found = new Map<string, Instruction[]>();
  let stage: Instruction[] = [];
  for (const line of text.split('\n').filter((each) => each.trim() !== '')) {
    const [name = '', rest = ''] = [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1).trim()];
    if (name === 'FROM') {
      stage = [];
      found.set(/ AS (\S+)$/.exec(rest)?.[1] ?? '', stage);
    } else stage.push({ name, text: rest });
  }
  return found;
}

/**
 * Builds `dist` from the files that `.dockerignore` lets into the build, in a folder with the installed packages and
 * the compiled protobuf messages, which the build makes by itself. Returns the folder.
 */
export async function buildFromContext(owner: Owner): Promise<string> {
  const folder = join(await tempDir(owner), 'src');
  const ignore = (await readFile(join(REPOSITORY, '.dockerignore'), 'utf8')).split('\n');
  const included = ignore.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
  for (const path of included)
    await cp(join(REPOSITORY, path), join(folder, path), {
      recursive: true,
      filter: (source) => !source.endsWith('.test.ts'),
    });
  await symlink(join(REPOSITORY, 'node_modules'), join(folder, 'node_modules'));
  const env = { ...process.env, BUILD_REVISION: 'abc123', GIT_DIR: '/nonexistent' };
  await promisify(execFile)(process.execPath, [join(folder, 'tools/build.ts')], { cwd: folder, env });
  return folder;
}

/** The shared libraries of a program, which a base image with glibc and libstdc++ has. */
const IN_BASE_IMAGE = /^(linux-vdso|ld-linux-x86-64|ld-linux-aarch64|lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s))\.so/;

async function copyLibraries(program: string, root: string): Promise<void> {
  const { stdout } = await promisify(execFile)('ldd', [program]);
  for (const line of stdout.trim().split('\n')) {
    const [, name = '', path] = /^\s*(?:\S*\/)?([^\s/]+)(?: => )?.*?(\/\S+)? \(0x/.exec(line) ?? [];
    if (!IN_BASE_IMAGE.test(name)) throw new Error(`${program} needs a library that the base image lacks: ${line}`);
    const file = path ?? /^\s*(\/\S+)/.exec(line)?.[1];
    if (file !== undefined) await cp(file, join(root, file), { dereference: true });
  }
}

export interface Image {
  readonly uid: number;
  /** Starts its entry point with these arguments; `folders` are writable ones of the host, by their path inside. */
  start(owner: Owner, run: ImageRun): Promise<Child>;
}

export interface ImageRun {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly folders: Readonly<Record<string, string>>;
  /**
   * As an init container that changes the network: as root with NET_ADMIN and NET_RAW, in a new network
   * namespace. The rules for addresses of that network are printed afterwards. Default false.
   */
  readonly changesNetwork?: boolean;
  /** With process ids of its own, in which the entry point is process 1. A signal does not reach it. Default false. */
  readonly ownProcesses?: boolean;
}

/** Makes the folders mounts of a read-only root, which becomes the root of the process, and gives up all privileges. */
const RUN = `
set -e
root=$1; uid=$2; shift 2
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$2" "$root$1"; shift 2; done
shift
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -o remount,ro,bind "$root"
if [ "$uid" = 0 ]; then
  ip link set lo up
  chroot "$root" /usr/local/bin/.setpriv --inh-caps=-all,+net_admin,+net_raw \\
    --bounding-set=-all,+net_admin,+net_raw --no-new-privs -- "$@"
  exec iptables-save -t nat
fi
exec chroot "$root" /usr/local/bin/.setpriv --reuid="$uid" --regid="$uid" --clear-groups --bounding-set=-all \\
  --no-new-privs -- "$@"`;

/** Runs what a stage does after it has installed packages, with the packages of this machine. */
async function collectFromHost(stage: string, root: string): Promise<void> {
  const [run] = ((await stages()).get(stage) ?? []).filter(({ name }) => name === 'RUN');
  const [, commands = ''] = (run?.text ?? '').split(/rm -rf \/var\/lib\/apt\/lists\/\* +&& /);
  await promisify(execFile)('sh', ['-ec', commands.replaceAll('/out', root.replace(/\/$/, ''))]);
}

function killChildren(pid: number): void {
  try {
    for (const id of readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' '))
      if (id !== '') process.kill(Number(id), 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Stages that copy programs of packages. */
const FROM_PACKAGES: readonly string[] = ['redirection', 'init'];

/** The image of a stage of the Dockerfile. `source` is the folder of `buildFromContext`. */
export async function assembleImage(owner: Owner, stage: string, source: string): Promise<Image> {
  const instructions = (await stages()).get(stage) ?? [];
  const all = (name: string) => instructions.filter((each) => each.name === name).map(({ text }) => text);
  const root = join(await tempDir(owner), 'root');
  for (const text of all('COPY')) {
    const [, from = '', path = '', to = ''] = /^--from=(\S+) (\S+) (\S+)$/.exec(text) ?? [];
    if (FROM_PACKAGES.includes(from)) {
      await collectFromHost(from, join(root, to));
      continue;
    }
    const local = from === 'envoy' ? envoyPath() : path.replace(/^\/src/, source);
    await mkdir(dirname(join(root, to)), { recursive: true });
    await cp(local, join(root, to), { recursive: true, dereference: true });
    if (to.startsWith('/usr/local/bin/')) await copyLibraries(local, root);
  }
  // Not of the image: what a container runtime does.
  const setpriv = (await promisify(execFile)('sh', ['-c', 'command -v setpriv'])).stdout.trim();
  await cp(setpriv, join(root, 'usr/local/bin/.setpriv'), { dereference: true });
  const { stdout } = await promisify(execFile)('ldd', [setpriv]);
  for (const [path] of stdout.matchAll(/\/\S+/g)) await cp(path, join(root, path), { dereference: true });
  for (const folder of ['dev', 'proc', 'etc']) await mkdir(join(root, folder), { recursive: true });
  await cp('/etc/hosts', join(root, 'etc/hosts'));

  const uid = Number(/^(\d+):\1$/.exec(all('USER').at(-1) ?? '')?.[1]);
  const entry = JSON.parse(all('ENTRYPOINT').at(-1) ?? '[]') as string[];
  return {
    uid,
    async start(scope, { args, env, folders, changesNetwork = false, ownProcesses = false }) {
      for (const path of Object.keys(folders)) await mkdir(join(root, path), { recursive: true });
      const mounts = Object.entries(folders).flat();
      const user = changesNetwork ? '0' : String(uid);
      const processes = ownProcesses ? ['--pid', '--fork', '--kill-child'] : [];
      const spaces = ['--mount', ...(changesNetwork ? ['--net'] : []), ...processes];
      const argv = [...spaces, '--', 'sh', '-c', RUN, 'sh', root, user, ...mounts, '--', ...entry, ...args];
      // A file of the host, which is not in the image.
      const inside = { ...env, NODE_EXTRA_CA_CERTS: undefined, NODE_COMPILE_CACHE: undefined };
      let started: Child | undefined;
      // Before the child is stopped: process 1 does not end with `unshare`, since it has changed its user.
      if (ownProcesses) scope.after(() => started && killChildren(started.pid));
      started = await startChild(scope, { name: stage, command: 'unshare', args: argv, env: inside, cwd: '/' });
      return started;
    },
  };
}
