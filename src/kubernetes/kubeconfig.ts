/**
 * Reads kubeconfig files (Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files"): the cluster,
 * the user and the namespace of the current context. What this program does not support is refused with the file and
 * the field that asks for it.
 */
import { readFile } from 'node:fs/promises';
import { delimiter, dirname, resolve } from 'node:path';
import { CtlError, errnoOf, messageOf } from '../core/errors.ts';
import type { ClusterAccess, TlsMaterial } from './access.ts';

type Entries = Record<string, unknown>;

/** A named entry of `clusters`, `users` or `contexts`. */
interface Named {
  readonly name: string;
  readonly value: Entries;
  readonly file: string;
  /** Path of the entry's fields, such as `users[0].user`. */
  readonly path: string;
}

interface Kubeconfig {
  readonly clusters: ReadonlyMap<string, Named>;
  readonly users: ReadonlyMap<string, Named>;
  readonly contexts: ReadonlyMap<string, Named>;
  readonly currentContext: { readonly name: string; readonly file: string } | undefined;
}

/** More than any kubeconfig has; files of hundreds of clusters have a few hundred KiB. */
const MAX_BYTES = 4 * 1024 * 1024;

/** User fields that need another program or a library, or that API servers no longer take. */
const REFUSED_USER_FIELDS: Readonly<Record<string, string>> = {
  exec: 'credential plugins are not supported; use token, tokenFile or client-certificate',
  'auth-provider': 'auth providers are not supported; use token, tokenFile or client-certificate',
  username: 'API servers take no passwords; use token, tokenFile or client-certificate',
  password: 'API servers take no passwords; use token, tokenFile or client-certificate',
  as: 'impersonation is not supported',
  'as-uid': 'impersonation is not supported',
  'as-groups': 'impersonation is not supported',
  'as-user-extra': 'impersonation is not supported',
};

/**
 * A kubeconfig that another party wrote, such as the content of a Secret. Only credentials inside the text are allowed:
 * a path would make this program read its own files for the author of the text, and a plugin would run a program.
 */
export interface KubeconfigText {
  readonly text: string;
  /** Where the text is from, for messages. */
  readonly name: string;
}

/**
 * The access of the current context.
 * @param from one file, or several separated as in the variable KUBECONFIG: the first file that has an entry of a name
 * counts; or a text, whose credentials must be inline
 * @throws CtlError naming file and field
 */
export async function readKubeconfig(from: string | KubeconfigText): Promise<ClusterAccess> {
  const [file = '', ...others] = typeof from === 'string' ? from.split(delimiter).filter(Boolean) : [from.name];
  const config = typeof from === 'string' ? await readFiles([file, ...others]) : await readInline(from);
  const { currentContext } = config;
  if (currentContext === undefined) throw refusal(file, 'current-context', 'expected the name of a context');
  const context = config.contexts.get(currentContext.name);
  if (context === undefined) {
    throw refusal(currentContext.file, 'current-context', `there is no context ${quoted(currentContext.name)}`);
  }
  const cluster = referenced(context, 'cluster', config.clusters);
  const user = context.value.user === undefined ? undefined : referenced(context, 'user', config.users);
  const namespace = text(context, 'namespace');
  if (typeof from !== 'string') requireInline(cluster, user);
  return { ...accessOf(cluster, user), ...(namespace === undefined ? {} : { namespace }) };
}

async function readFiles(paths: readonly string[]): Promise<Kubeconfig> {
  const files = paths.map((path) => resolve(path));
  return merged(await Promise.all(files.map(async (file) => ({ file, content: await readText(file, file) }))));
}

function readInline({ text, name }: KubeconfigText): Promise<Kubeconfig> {
  return merged([{ file: name, content: text }]);
}

interface FileContent {
  readonly file: string;
  readonly content: string;
}

async function merged(files: readonly FileContent[]): Promise<Kubeconfig> {
  const [clusters, users, contexts] = [new Map<string, Named>(), new Map<string, Named>(), new Map<string, Named>()];
  let currentContext: Kubeconfig['currentContext'];
  for (const { file, content: text } of files) {
    const content = await parseYaml(file, text);
    addEntries(clusters, content.clusters, 'clusters', 'cluster', file);
    addEntries(users, content.users, 'users', 'user', file);
    addEntries(contexts, content.contexts, 'contexts', 'context', file);
    const name = content['current-context'];
    if (currentContext === undefined && typeof name === 'string' && name !== '') currentContext = { name, file };
  }
  return { clusters, users, contexts, currentContext };
}

async function parseYaml(file: string, content: string): Promise<Entries> {
  if (content.length > MAX_BYTES) throw refusal(file, '', `expected a kubeconfig of at most ${MAX_BYTES} bytes`);
  const { parse } = await import('../core/yaml.ts');
  let parsed: unknown;
  try {
    parsed = parse(content, { logLevel: 'error', prettyErrors: false });
  } catch {
    // The parser's message may quote a line that holds a key.
    throw refusal(file, '', 'expected YAML or JSON');
  }
  if (!isEntries(parsed)) throw refusal(file, '', 'expected a kubeconfig');
  return parsed;
}

function addEntries(into: Map<string, Named>, list: unknown, field: string, member: string, file: string): void {
  if (list === undefined || list === null) return;
  if (!Array.isArray(list)) throw refusal(file, field, 'expected a list');
  list.forEach((entry: unknown, index) => {
    const name = isEntries(entry) ? entry.name : undefined;
    if (!isEntries(entry) || typeof name !== 'string')
      throw refusal(file, `${field}[${index}].name`, 'expected a name');
    const value = entry[member] ?? {};
    const path = `${field}[${index}].${member}`;
    if (!isEntries(value)) throw refusal(file, path, 'expected an object');
    if (!into.has(name)) into.set(name, { name, value, file, path });
  });
}

function referenced(context: Named, field: string, entries: ReadonlyMap<string, Named>): Named {
  const name = text(context, field);
  const entry = name === undefined ? undefined : entries.get(name);
  if (entry !== undefined) return entry;
  const message = name === undefined ? `expected the name of a ${field}` : `there is no ${field} ${quoted(name)}`;
  throw refusal(context.file, `${context.path}.${field}`, message);
}

/** Refuses credentials that are outside of the text. */
function requireInline(cluster: Named, user: Named | undefined): void {
  const paths: readonly (readonly [entry: Named | undefined, fields: readonly string[]])[] = [
    [cluster, ['certificate-authority']],
    [user, ['client-certificate', 'client-key', 'tokenFile']],
  ];
  for (const [entry, fields] of paths) {
    for (const field of fields) {
      if (entry?.value[field] === undefined) continue;
      const instead = field === 'tokenFile' ? 'token' : `${field}-data`;
      throw refused(entry, field, `expected ${instead}: only credentials inside this kubeconfig are allowed`);
    }
  }
}

function accessOf(cluster: Named, user: Named | undefined): Omit<ClusterAccess, 'namespace'> {
  const server = serverOf(cluster);
  if (cluster.value['proxy-url'] !== undefined) throw refused(cluster, 'proxy-url', 'proxies are not supported');
  if (cluster.value['insecure-skip-tls-verify'] === true) {
    // An impostor of the server would choose every route and policy of the mesh.
    throw refused(
      cluster,
      'insecure-skip-tls-verify',
      'expected certificate-authority; unverified servers are refused',
    );
  }
  for (const [field, message] of Object.entries(REFUSED_USER_FIELDS)) {
    if (user?.value[field] !== undefined) throw refused(user, field, message);
  }
  const ca = material(cluster, 'certificate-authority');
  const cert = user === undefined ? undefined : material(user, 'client-certificate');
  const key = user === undefined ? undefined : material(user, 'client-key');
  if (user !== undefined && (cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? 'client-certificate' : 'client-key';
    throw refused(user, missing, 'expected both client-certificate and client-key');
  }
  const serverName = text(cluster, 'tls-server-name');
  return {
    server,
    ...(serverName === undefined ? {} : { serverName }),
    async tls(): Promise<TlsMaterial> {
      const [caText, certText, keyText] = await Promise.all([ca?.(), cert?.(), key?.()]);
      return {
        ...(caText === undefined ? {} : { ca: caText }),
        ...(certText === undefined ? {} : { cert: certText }),
        ...(keyText === undefined ? {} : { key: keyText }),
      };
    },
    token: tokenOf(user),
  };
}

function serverOf(cluster: Named): URL {
  const server = URL.parse(text(cluster, 'server') ?? '');
  if (server === null) throw refused(cluster, 'server', 'expected a URL such as https://10.0.0.1:6443');
  if (server.protocol !== 'https:') throw refused(cluster, 'server', `expected https, got ${server.protocol}//`);
  if (server.username !== '' || server.password !== '')
    throw refused(cluster, 'server', 'expected a URL without a user');
  return server;
}

/** A PEM text: in the entry as base64 (`NAME-data`), or in a file that it names; undefined without both. */
function material(entry: Named, field: string): (() => Promise<string>) | undefined {
  const data = text(entry, `${field}-data`);
  if (data !== undefined) {
    const pem = Buffer.from(data, 'base64').toString('latin1');
    if (!pem.includes('-----BEGIN ')) throw refused(entry, `${field}-data`, 'expected PEM text in base64');
    return () => Promise.resolve(pem);
  }
  const path = text(entry, field);
  if (path === undefined) return undefined;
  const file = resolve(dirname(entry.file), path);
  return () => readPem(file, entry.file, `${entry.path}.${field}`);
}

function tokenOf(user: Named | undefined): ClusterAccess['token'] {
  if (user === undefined) return () => Promise.resolve(undefined);
  const path = text(user, 'tokenFile');
  // As in other clients, the file counts where both are given.
  if (path === undefined) {
    const token = text(user, 'token');
    if (token !== undefined) checkToken(token, user.file, `${user.path}.token`);
    return () => Promise.resolve(token);
  }
  const file = resolve(dirname(user.file), path);
  return () => readToken(file);
}

/** Reads a bearer token from a file. Rejects with CtlError naming the file. */
export async function readToken(file: string): Promise<string> {
  const token = (await readText(file, file)).trim();
  checkToken(token, file, '');
  return token;
}

function checkToken(token: string, file: string, field: string): void {
  if (!/^[\x21-\x7e]+$/.test(token)) throw refusal(file, field, 'expected a token of printable characters');
}

/**
 * Reads a PEM file. An empty one is refused: Node trusts the authorities of the Web where it is given none.
 * @param at the file and the field that name `file`, for the message
 */
export async function readPem(file: string, at: string, field = ''): Promise<string> {
  const pem = await readText(file, at, field);
  if (!pem.includes('-----BEGIN ')) throw refusal(at, field, `expected PEM text in ${file}`);
  return pem;
}

/** @param at the file and the field that name `file`, for the message */
export async function readText(file: string, at: string, field = ''): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = errnoOf(error) ?? messageOf(error);
    throw refusal(at, field, `cannot read ${file} (${code})`);
  }
}

function text(entry: Named, field: string): string | undefined {
  const value = entry.value[field];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw refused(entry, field, 'expected a string');
  return value;
}

function refused(entry: Named, field: string, message: string): CtlError {
  return refusal(entry.file, `${entry.path}.${field}`, message);
}

function refusal(file: string, field: string, message: string): CtlError {
  return new CtlError('failed_precondition', message, { file, field });
}

function isEntries(value: unknown): value is Entries {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
