/** The Go toolchain, which builds the programs that some tests need and that no package registry has. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

/** Where Go's own installer puts it. */
const USUAL_FOLDER = '/usr/local/go/bin';

/** The path of the go command; undefined where there is none. */
export function goCommand(): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), USUAL_FOLDER];
  return folders.map((folder) => join(folder, 'go')).find((file) => existsSync(file));
}

/** Variables for the go command: it uses the compiler that is installed and never fetches another one. */
export const GO_ENVIRONMENT = { GOTOOLCHAIN: 'local', GOWORK: 'off', CGO_ENABLED: '0' } as const;

/** The version of a go command, as numbers: `go1.26.8` is [1, 26]. */
export async function goVersion(go: string): Promise<readonly [major: number, minor: number]> {
  const env = { ...process.env, ...GO_ENVIRONMENT };
  const { stdout } = await promisify(execFile)(go, ['env', 'GOVERSION'], { env });
  const [, major = '0', minor = '0'] = /^go(\d+)\.(\d+)/.exec(stdout) ?? [];
  return [Number(major), Number(minor)];
}
