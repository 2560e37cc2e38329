/**
 * Reads kubeconfig files (Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files"): the cluster,
 * the user and the namespace of the current context. A setting that this program does not support is rejected with its
 * file and field.
 */
import { delimiter, dirname, resolve } from 'node:path';
import type { CtlError } from '../core/errors.ts';
import { isObject } from '../core/objects.ts';
import type { ClusterAccess, TlsMaterial } from './access.ts';
import { checkToken, readPem, readText, readToken } from './credential-files.ts';
import { CredentialPlugin } from './credential-plugin.ts';
import { FollowedAccess } from './followed-access.ts';
import { type Entries, type Named, quoted, refusal, refused, text } from './kubeconfig-entries.ts';

interface Kubeconfig {
  readonly clusters: ReadonlyMap<string, Named>;
  readonly users: ReadonlyMap<string, Named>;
  readonly contexts: ReadonlyMap<string, Named>;
  readonly currentContext: { readonly name: string; readonly file: string } | undefined;
}

/** More than any kubeconfig has; files of hundreds of clusters have a few hundred KiB. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Fields of the user entry that need another program or a library, or that API servers no longer accept. */
const REFUSED_USER_FIELDS: Readonly<Record<string, string>> = {
  'auth-provider': 'auth providers were removed from Kubernetes clients in 1.26; use exec, tokenFile or a certificate',
  username: 'API servers do not accept passwords; use token, tokenFile or client-certificate',
  password: 'API servers do not accept passwords; use token, tokenFile or client-certificate',
  as: 'impersonation is not supported',
  'as-uid': 'impersonation is not supported',
  'as-groups': 'impersonation is not supported',
  'as-user-extra': 'impersonation is not supported',
};

/**
 * A kubeconfig that another party wrote, such as the content of a Secret. Only inline credentials are allowed: a path
 * would make this program read its own files for the author of the kubeconfig, and a plugin would run a program.
 */
export interface KubeconfigText {
  readonly text: string;
  /** The origin of the content, for messages. */
  readonly name: string;
}

export interface KubeconfigOptions {
  /**
   * Called once for each change of files after which they cannot be used. The credentials that were read before stay in
   * use.
   */
  readonly onProblem?: (error: CtlError) => void;
}

/**
 * The access of the current context. Files are read again when they have changed: credentials in them can be renewed,
 * the context and its server stay those of the start. @param from one file, or several separated as in the variable
 * KUBECONFIG: of entries with the same name, the first is used; or the content of a kubeconfig, whose credentials must
 * be inline
 * @throws CtlError naming file and field
 */
export async function readKubeconfig(
  from: string | KubeconfigText,
  { onProblem = () => undefined }: KubeconfigOptions = {},
): Promise<ClusterAccess> {
  if (typeof from !== 'string') {
    const config = await merged([{ file: from.name, content: from.text }]);
    return accessOfContext(config, from.name, 'inline');
  }
  const files = from.split(delimiter).flatMap((path) => (path === '' ? [] : [resolve(path)]));
  const [file = ''] = files;
  let context: string | undefined;
  const read = async (): Promise<ClusterAccess> => {
    const config = await merged(
      await Promise.all(files.map(async (path) => ({ file: path, content: await readText(path, path) }))),
    );
    context ??= config.currentContext?.name;
    return accessOfContext(config, file, 'any', context);
  };
  return FollowedAccess.start(files, read, onProblem);
}

/** @param name of the context; default: the current one */
function accessOfContext(
  config: Kubeconfig,
  file: string,
  credentials: 'any' | 'inline',
  name = config.currentContext?.name,
): ClusterAccess {
  if (name === undefined) throw refusal(file, 'current-context', 'expected the name of a context');
  const context = config.contexts.get(name);
  if (context === undefined) {
    throw refusal(config.currentContext?.file ?? file, 'current-context', `there is no context ${quoted(name)}`);
  }
  const cluster = referenced(context, 'cluster', config.clusters);
  const user = context.value.user === undefined ? undefined : referenced(context, 'user', config.users);
  const namespace = text(context, 'namespace');
  if (credentials === 'inline') requireInline(cluster, user);
  return { ...accessOf(cluster, user), ...(namespace === undefined ? {} : { namespace }) };
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
    // The parser's message may quote a line with a key.
    throw refusal(file, '', 'expected YAML or JSON');
  }
  if (!isObject(parsed)) throw refusal(file, '', 'expected a kubeconfig');
  return parsed;
}

function addEntries(into: Map<string, Named>, list: unknown, field: string, member: string, file: string): void {
  if (list === undefined || list === null) return;
  if (!Array.isArray(list)) throw refusal(file, field, 'expected a list');
  list.forEach((entry: unknown, index) => {
    const name = isObject(entry) ? entry.name : undefined;
    if (!isObject(entry) || typeof name !== 'string') throw refusal(file, `${field}[${index}].name`, 'expected a name');
    const value = entry[member] ?? {};
    const path = `${field}[${index}].${member}`;
    if (!isObject(value)) throw refusal(file, path, 'expected an object');
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

/** Throws CtlError for credentials that are not inline. */
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
  if (user?.value.exec !== undefined) {
    throw refused(user, 'exec', 'expected token: this kubeconfig must not name a program to run');
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
      'expected certificate-authority: the certificate of the server must be verified',
    );
  }
  for (const [field, message] of Object.entries(REFUSED_USER_FIELDS)) {
    if (user?.value[field] !== undefined) throw refused(user, field, message);
  }
  const ca = material(cluster, 'certificate-authority');
  const serverName = text(cluster, 'tls-server-name');
  const credentials = credentialsOf(user, cluster, ca);
  return {
    server,
    ...(serverName === undefined ? {} : { serverName }),
    async tls(): Promise<TlsMaterial> {
      const [authority, own] = await Promise.all([ca?.(), credentials.certificate()]);
      return { ...(authority === undefined ? {} : { ca: authority }), ...own };
    },
    token: () => credentials.token(),
    rejected: () => credentials.rejected(),
  };
}

interface Credentials {
  certificate(): Promise<Pick<TlsMaterial, 'cert' | 'key'>>;
  token(): Promise<string | undefined>;
  rejected(): void;
}

function credentialsOf(user: Named | undefined, cluster: Named, ca: (() => Promise<string>) | undefined): Credentials {
  if (user?.value.exec !== undefined && user.value.exec !== null) {
    return CredentialPlugin.of(user, {
      server: text(cluster, 'server') ?? '',
      serverName: text(cluster, 'tls-server-name'),
      ca,
      extensions: cluster.value.extensions,
    });
  }
  const cert = user === undefined ? undefined : material(user, 'client-certificate');
  const key = user === undefined ? undefined : material(user, 'client-key');
  if (user !== undefined && (cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? 'client-certificate' : 'client-key';
    throw refused(user, missing, 'expected both client-certificate and client-key');
  }
  return {
    async certificate() {
      const [certText, keyText] = await Promise.all([cert?.(), key?.()]);
      return certText === undefined || keyText === undefined ? {} : { cert: certText, key: keyText };
    },
    token: tokenOf(user),
    // Credentials in files are read again when the files change.
    rejected: () => undefined,
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

/** PEM data: in the entry as base64 (`NAME-data`), or in a file that the entry names; undefined without both. */
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
  // As in other clients, the file takes precedence.
  if (path === undefined) {
    const token = text(user, 'token');
    if (token !== undefined) checkToken(token, user.file, `${user.path}.token`);
    return () => Promise.resolve(token);
  }
  const file = resolve(dirname(user.file), path);
  return () => readToken(file);
}
