/**
 * The process of a container. It has the network namespace of its Pod, and namespaces of its own for mounts and process
 * ids: volumes are at their absolute paths although this machine has no such folders, all of its processes end with the
 * first one, and nothing outside /tmp can be changed.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Child } from '../../child.ts';
import type { Namespace } from '../../netns.ts';
import type { Container, Pod } from './types.ts';

/** A file or folder of this machine, and its absolute path in the container. */
export interface Mount {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
}

export interface ProcessOptions {
  /** For messages. */
  readonly name: string;
  readonly argv: readonly string[];
  /** All of them: nothing is inherited but PATH. */
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
  readonly onOutput: (text: string) => void;
}

export interface ContainerProcess {
  /** The first process of the container, as this machine counts; undefined once it has ended. */
  pid(): Promise<number | undefined>;
  /** The exit code, after all output; 128 and the number of the signal for a process that a signal ended. */
  readonly exited: Promise<number>;
  /** Runs a command in the container, as its user; returns its stdout. Rejects unless it ends with 0 in time. */
  execute(command: readonly string[], timeoutMs: number): Promise<string>;
  /** SIGTERM, and SIGKILL where that has not ended it in time or would not be noticed. */
  end(graceMs: number): Promise<void>;
}

/** Written before the program of the container starts. */
const ENTERED = '[entered]';

/**
 * Arguments: `ro` or `rw` for the whole file system, the working directory, triples of source, target and `ro` or `rw`,
 * `--`, and the command line. A folder without the entry that a mount needs is replaced by one with links to its
 * entries, which are kept below /mnt.
 */
const ENTER = `
set -e
files=$1 directory=$2; shift 2
mount --rbind /tmp /tmp
while read -r device path rest; do
  case $path in /proc*|/sys*|/dev*|/run*|/mnt*|/tmp*) ;; *) mount -o remount,bind,ro "$path" ;; esac
done < /proc/self/mounts
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=755 none /mnt
writable() {
  folder=$1
  while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
  mkdir -p "$1" 2> /dev/null && [ -w "$1" ] && return
  if [ "$folder" = / ]; then echo "mounts in new folders of / are not supported: $1"; exit 1; fi
  mkdir -p "/mnt$folder"
  mount --rbind "$folder" "/mnt$folder"
  mount -t tmpfs -o mode=755 none "$folder"
  ln -s "/mnt$folder"/* "$folder"
  mkdir -p "$1"
}
while [ "$1" != -- ]; do
  source=$1 target=$(realpath -m "$2") mode=$3; shift 3
  if [ ! -e "$target" ]; then
    if [ -d "$source" ]; then writable "$target"; else writable "$(dirname "$target")"; : > "$target"; fi
  fi
  mount --bind "$source" "$target"
  if [ "$mode" = ro ]; then mount -o remount,bind,ro "$target"; fi
done
shift
if [ "$files" = ro ]; then mount -o remount,bind,ro /tmp; mount -o remount,ro /run; fi
cd "$directory"
printf '${ENTERED}'
exec "$@"`;

/** The command line that runs another one as the container's user, with its capabilities. */
function asContainerUser(pod: Pod, container: Container): string[] {
  const own = container.securityContext ?? {};
  const { runAsUser: uid, runAsGroup: gid, runAsNonRoot, fsGroup } = { ...pod.spec.securityContext, ...own };
  if (runAsNonRoot === true && (uid ?? 0) === 0)
    throw new Error('runAsNonRoot is set, and the container would be root');
  const { add = [], drop = [] } = own.capabilities ?? {};
  const named = add.map((name) => `+${name.toLowerCase()}`);
  return [
    'setpriv',
    `--reuid=${uid ?? 0}`,
    `--regid=${gid ?? 0}`,
    fsGroup === undefined ? '--clear-groups' : `--groups=${fsGroup}`,
    // Another user than root has none of them, as in a cluster.
    ...(drop.includes('ALL') ? [`--bounding-set=${['-all', ...named].join()}`] : []),
    ...(own.allowPrivilegeEscalation === false ? ['--no-new-privs'] : []),
  ];
}

/** Whether a process has a handler for SIGTERM (proc(5)): the first process of a namespace ignores it otherwise. */
async function handlesTermination(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const caught = BigInt(`0x${/^SigCgt:\s*(\w+)/m.exec(status)?.[1] ?? '0'}`);
  return (caught & (1n << 14n)) !== 0n;
}

/** Sends a signal to a process that may have ended. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

/** `unshare` waits for the first process of the container, its only child. */
async function firstProcess(child: Child): Promise<number | undefined> {
  const children = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').catch(() => '');
  const pid = Number.parseInt(children, 10);
  return Number.isNaN(pid) ? undefined : pid;
}

function controlled(child: Child, command: (argv: readonly string[]) => string[]): ContainerProcess {
  const pid = () => firstProcess(child);
  // No process of the container outlives its first one.
  const exited = child.closed.then(async () => (await child.exited).code ?? 137);
  return {
    pid,
    exited,
    async execute(argv, timeoutMs) {
      const first = await pid();
      if (first === undefined) throw new Error('the container does not run');
      const args = ['--target', String(first), '--mount', '--net', '--pid', '--', ...command(argv)];
      return new Promise<string>((resolve, reject) => {
        execFile('nsenter', args, { timeout: Math.ceil(timeoutMs) }, (error, stdout, stderr) =>
          error === null
            ? resolve(stdout)
            : reject(new Error(`${argv.join(' ')}: ${stderr || stdout || error.message}`)),
        );
      });
    },
    async end(graceMs) {
      const first = await pid();
      if (first !== undefined && graceMs > 0 && (await handlesTermination(first))) {
        signal(first, 'SIGTERM');
        const timer = new AbortController();
        const late = delay(graceMs, undefined, { signal: timer.signal }).catch(() => undefined);
        await Promise.race([exited, late]);
        timer.abort();
      }
      // All others end with it. A change of the user clears the signal that `--kill-child` has asked for.
      if (first !== undefined) signal(first, 'SIGKILL');
      await child.kill();
    },
  };
}

/** Receives output; the promise is for the mark in it, which is not passed on. */
function untilEntered(onOutput: (text: string) => void) {
  const { promise, resolve } = Promise.withResolvers<void>();
  let entered = false;
  const receive = (text: string): void => {
    const mark = entered ? -1 : text.indexOf(ENTERED);
    const rest = mark < 0 ? text : text.slice(0, mark) + text.slice(mark + ENTERED.length);
    if (rest !== '') onOutput(rest);
    if (mark < 0) return;
    entered = true;
    resolve();
  };
  return { entered: promise, receive };
}

/** After this time the set-up of a container hangs. It takes some milliseconds. */
const ENTER_TIMEOUT_MS = 60_000;

/**
 * Starts the process; returns when the namespaces of the container are complete. It ends with the owner of the
 * namespace.
 */
export async function startProcess(
  namespace: Namespace,
  pod: Pod,
  container: Container,
  { name, argv, env, mounts, onOutput }: ProcessOptions,
): Promise<ContainerProcess> {
  const variables = Object.entries({ PATH: process.env.PATH ?? '', ...env }).map(([key, value]) => `${key}=${value}`);
  const user = asContainerUser(pod, container);
  const command = (program: readonly string[]) => [...user, 'env', '-i', ...variables, ...program];
  const files = container.securityContext?.readOnlyRootFilesystem === true ? 'ro' : 'rw';
  const { entered, receive } = untilEntered(onOutput);
  const child = await namespace.start(
    name,
    [
      ...['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'],
      ...['sh', '-c', ENTER, 'sh', files, container.workingDir ?? '/'],
      ...mounts.flatMap(({ source, target, readOnly }) => [source, target, readOnly ? 'ro' : 'rw']),
      '--',
      ...command(argv),
    ],
    receive,
  );
  const timer = new AbortController();
  const late = delay(ENTER_TIMEOUT_MS, 'late' as const, { signal: timer.signal }).catch(() => undefined);
  const first = await Promise.race([entered, child.exited, late]);
  timer.abort();
  if (first !== 'late') return controlled(child, command);
  await child.kill();
  throw new Error(`the mounts of the container were not complete in ${ENTER_TIMEOUT_MS} ms: ${child.output()}`);
}
