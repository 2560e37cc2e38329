/**
 * Machines with systemd as their first process, for tests of units: dependencies, start limits, restarts and boots are
 * those of a real machine. A machine is a set of namespaces around a copy of this system's files (overlayfs): what it
 * writes is discarded with it. Of the system's own units only the journal runs, so that nothing here can set the clock,
 * kernel variables or devices of the host.
 */
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Child, startChild } from './child.ts';
import { eventually } from './eventually.ts';
import { tempDir } from './files.ts';
import { type Namespace, netnsUnavailable } from './netns.ts';
import type { Owner } from './owner.ts';

const execute = promisify(execFile);

const SYSTEMD = '/lib/systemd/systemd';
const NETWORKS = '/run/netns';

export interface SystemdMachine {
  readonly netns: Namespace;
  /** Runs a program on the machine to its end and gives its stdout; rejects when it fails. */
  run(...argv: readonly string[]): Promise<string>;
  /** Runs commands of a shell in a folder of the machine. */
  shell(text: string, folder?: string): Promise<string>;
  /** Writes a file of the machine; its folder is made. */
  write(path: string, text: string, mode?: number): Promise<void>;
  /** Starts the machine again, with its files as they are; settles when it has booted. */
  reboot(): Promise<void>;
}

export interface SystemdOptions {
  readonly netns: Namespace;
  /** Files and folders of this system that the machine has at other paths, read-only: path there → path here. */
  readonly mounts: Readonly<Record<string, string>>;
}

/** Folder of the cgroup hierarchy of version 2: the only one that systemd needs. Undefined without one. */
function cgroupFolder(): string | undefined {
  const line = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((each) => / - cgroup2 /.test(each));
  return line?.split(' ')[4];
}

/** Why machines cannot be made here, or undefined when they can: for the `skip` of a test. */
export async function systemdUnavailable(): Promise<string | undefined> {
  const reason = await netnsUnavailable();
  if (reason !== undefined) return reason;
  if (!existsSync(SYSTEMD)) return 'systemd is not installed';
  const cgroups = cgroupFolder();
  if (cgroups === undefined) return 'the system has no cgroups of version 2';
  const probe = join(cgroups, `meshd-probe-${process.pid}`);
  try {
    await mkdir(probe);
    await rmdir(probe);
  } catch (error) {
    return `cannot make cgroups: ${(error as Error).message}`;
  }
  const overlay = 'mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/n && mount -t overlay -o "$0" none /mnt/n';
  const layers = 'lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w';
  const { status, stderr } = spawnSync('unshare', ['-m', 'sh', '-ec', overlay, layers], { encoding: 'utf8' });
  return status === 0 ? undefined : `cannot copy the system's files: ${stderr.trim()}`;
}

/**
 * Runs in a mount namespace of its own. Arguments: the cgroup of the machine, an empty folder, then pairs of paths to
 * mount. A machine that reboots ends its first process with SIGHUP, see reboot(2) in a PID namespace.
 */
const MACHINE = `
cgroup=$1 folder=$2; shift 2
echo 0 > "$cgroup/cgroup.procs"
mount -t tmpfs none "$folder"
mkdir "$folder/upper" "$folder/work" "$folder/root"
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" none "$folder/root"
root=$folder/root
while [ $# -gt 0 ]; do
  mkdir -p "$root$(dirname "$1")"
  if [ -d "$2" ]; then mkdir -p "$root$1"; else [ -e "$root$1" ] || : > "$root$1"; fi
  mount --bind -o ro "$2" "$root$1"
  shift 2
done
rm -rf "$root/etc/fstab" "$root"/etc/systemd/system/* "$root/lib/systemd/system-generators"
rm -rf "$root"/lib/systemd/system/sysinit.target.wants/* "$root"/lib/systemd/system/multi-user.target.wants \\
  "$root"/lib/systemd/system/timers.target.wants "$root"/lib/systemd/system/sockets.target.wants/*udev* \\
  "$root"/lib/systemd/system/local-fs.target.wants "$root"/lib/systemd/system/graphical.target.wants
ln -s ../systemd-journald.service "$root/lib/systemd/system/sysinit.target.wants/"
status=129
while [ "$status" = 129 ]; do
  status=0
  unshare --mount --pid --cgroup --uts --ipc --fork --kill-child sh -ec '
    mount -t proc proc "$0/proc"
    mount -t sysfs -o ro sysfs "$0/sys"
    mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
    mount -t tmpfs none "$0/run"
    mount -t tmpfs -o mode=1777 none "$0/tmp"
    mount -t tmpfs -o mode=755 none "$0/dev"
    for each in null zero full random urandom tty; do
      : > "$0/dev/$each"; mount --bind "/dev/$each" "$0/dev/$each"
    done
    ln -s /proc/self/fd "$0/dev/fd"
    mkdir -p "$0/.outside"
    cd "$0"; pivot_root . .outside
    umount -l /.outside
    exec env -i container=meshd PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
      ${SYSTEMD} --system --unit=multi-user.target
  ' "$root" || status=$?
done
`;

/** Starts a machine, which ends with its owner; resolves when it has booted. */
export async function startSystemd(owner: Owner, { netns, mounts }: SystemdOptions): Promise<SystemdMachine> {
  const folder = await tempDir(owner);
  const cgroup = join(cgroupFolder() ?? '', `${netns.name}-${process.pid}`);
  await mkdir(cgroup);
  // setpriv: when this process is killed, so is the machine. The namespace of `ip netns exec` would hide the cgroups.
  const own = ['--pdeathsig', 'KILL', 'unshare', '--mount', 'sh', '-euc', MACHINE, 'sh', cgroup, folder];
  const pairs = Object.entries(mounts).flat();
  const args = [`--net=${join(NETWORKS, netns.name)}`, 'setpriv', ...own, ...pairs];
  let vm: SystemdMachine | undefined;
  // Before that of the child, which ends the machine.
  owner.after(async () => {
    if (owner.error && vm !== undefined)
      process.stderr.write(await vm.shell(`journalctl --no-pager -n ${JOURNAL_LINES}`));
  });
  const child = await startChild(owner, { name: `systemd ${netns.name}`, command: 'nsenter', args });
  owner.after(async () => {
    // A process that waits for its child does not end by SIGTERM; the first process of the machine ends with it.
    await child.kill();
    await removeCgroup(cgroup);
  });
  vm = await machine(child, netns);
  return vm;
}

async function machine(child: Child, netns: Namespace): Promise<SystemdMachine> {
  let first = 0;
  const run = async (...argv: readonly string[]): Promise<string> => {
    const enter = ['--target', String(first), '--mount', '--pid', '--cgroup', '--uts', '--ipc', '--net', '--wd=/'];
    const { stdout } = await execute('nsenter', [...enter, '--', ...argv], { timeout: RUN_TIMEOUT_MS });
    return stdout;
  };
  /** Settles when a first process other than `before` has reached its target. */
  const booted = async (before: number): Promise<void> => {
    await eventually(
      async () => {
        child.assertRunning();
        first = firstProcess(child.pid) ?? 0;
        if (first === 0 || first === before) throw new Error('systemd does not run yet');
        const state = await run('systemctl', 'is-system-running').catch((error) => String(error.stdout ?? error));
        // `degraded`: a unit has failed, which a test may want.
        if (!/^(running|degraded)$/m.test(state)) throw new Error(`the machine is ${state.trim()}`);
      },
      { timeoutMs: BOOT_TIMEOUT_MS, what: `systemd of ${netns.name}` },
    );
  };
  await booted(0);
  return {
    netns,
    run,
    shell: (text, folder = '/root') => run('sh', '-ec', `cd ${folder}\n${text}`),
    async write(path, text, mode = 0o644) {
      await run('mkdir', '-p', dirname(path));
      // The root of the machine as the kernel shows it to this process, see proc(5).
      const there = join(`/proc/${first}/root`, path);
      await writeFile(there, text, { mode });
    },
    async reboot() {
      const before = first;
      // On a crowded machine the shutdown ends this process before it has its answer.
      const refusal = await run('systemctl', 'reboot').then(
        () => undefined,
        (error: unknown) => error,
      );
      await booted(before).catch((error: unknown) => {
        throw refusal ?? error;
      });
    },
  };
}

/** After this time a program hangs, also where it starts a unit on a machine on which dozens of tasks run. */
const RUN_TIMEOUT_MS = 600_000;
/** Of the journal of a machine whose test has failed. */
const JOURNAL_LINES = 80;
const BOOT_TIMEOUT_MS = 60_000;

/** The process named `systemd` below a process, by its id here. */
function firstProcess(pid: number): number | undefined {
  for (const id of childrenOf(pid)) {
    const name = textOf(`/proc/${id}/comm`).trim();
    const found = name === 'systemd' ? id : firstProcess(id);
    if (found !== undefined) return found;
  }
  return undefined;
}

function childrenOf(pid: number): readonly number[] {
  const text = textOf(`/proc/${pid}/task/${pid}/children`);
  return text
    .split(' ')
    .filter((id) => id !== '')
    .map(Number);
}

/** Processes end while they are looked at. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** A cgroup can be removed when its last process has ended, which takes a moment after SIGKILL. */
async function removeCgroup(folder: string): Promise<void> {
  await eventually(
    async () => {
      const { status, stderr } = spawnSync('find', [folder, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', '+']);
      if (status !== 0 && existsSync(folder)) throw new Error(`${folder}: ${stderr}`);
    },
    { what: `the cgroup ${folder} is empty` },
  );
}
