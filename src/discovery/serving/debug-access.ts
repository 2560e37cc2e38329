/**
 * Who may see which debug pages (docs/security-model.md). A caller either has a bearer token, which the authenticators
 * of xDS verify, or is a program on this machine (`core/network/loopback.ts`). A token of the root namespace sees
 * everything, a token of another namespace the documents, services and proxies of that namespace. A loopback address
 * permits reading only and is not an identity (CVE-2022-39388).
 */
import { CtlError } from '../../core/errors.ts';
import type { Identity } from '../../core/identity.ts';
import { isLoopbackAddress, notLocal, type RequestOrigin } from '../../core/network/loopback.ts';
import type { Viewer } from '../../debug/index.ts';
import { PerAddressLimiter } from '../../grpc/index.ts';
import type { Authentication } from '../../security/index.ts';

/** The maximum number of tokens of all addresses that are verified at the same time. A signature costs about 0.1 ms. */
const MAX_VERIFYING = 64;

export interface DebugAccessOptions {
  /** The authenticators of xDS; undefined until they exist. */
  readonly callers: () => Authentication | undefined;
  /** Root namespace and trust domain of the mesh; undefined until they are known. */
  readonly home: () => { readonly rootNamespace: string; readonly trustDomain: string } | undefined;
  /** CTL_DEBUG_AUTH=false: pages need no credential. */
  readonly open: boolean;
  /** Called for each refused request. */
  readonly refused?: (address: string, error: CtlError) => void;
}

export class DebugAccess {
  readonly #options: DebugAccessOptions;
  readonly #verifying = new PerAddressLimiter(MAX_VERIFYING);

  constructor(options: DebugAccessOptions) {
    this.#options = options;
  }

  /**
   * What the caller may see. Rejects with CtlError `unauthenticated` (no credential, or an invalid one),
   * `permission_denied` (from loopback, but possibly on behalf of another machine) or `unavailable` (not known yet).
   */
  async viewerOf(request: RequestOrigin): Promise<Viewer> {
    return this.#options.open ? 'all' : this.provedViewer(request);
  }

  /**
   * Rejects like {@link viewerOf}, and with `permission_denied` for a caller who may not see everything. It ignores
   * CTL_DEBUG_AUTH.
   * @param what the caller asks for
   */
  async allOrRefuse(request: RequestOrigin, what: string): Promise<void> {
    const viewer = await this.provedViewer(request);
    if (viewer === 'all') return;
    throw new CtlError(
      'permission_denied',
      `${what} need a bearer token of ${this.#root()}, or a request from this machine to localhost`,
    );
  }

  /** Like {@link viewerOf}, but it ignores CTL_DEBUG_AUTH. */
  async provedViewer(request: RequestOrigin): Promise<Viewer> {
    try {
      return await this.#proved(request);
    } catch (error) {
      if (error instanceof CtlError) this.#options.refused?.(request.socket.remoteAddress ?? '', error);
      throw error;
    }
  }

  async #proved(request: RequestOrigin): Promise<Viewer> {
    const { authorization } = request.headers;
    if (authorization !== undefined) return this.#viewerOfToken(authorization, request.socket.remoteAddress ?? '');
    const reason = notLocal(request);
    if (reason === undefined) return 'all';
    const token = `a bearer token of ${this.#root()} (for all pages) or of another namespace (for its own documents)`;
    const needed = `${token}, or a request from this machine to localhost`;
    const code = isLoopbackAddress(request.socket.remoteAddress) ? 'permission_denied' : 'unauthenticated';
    throw new CtlError(code, `debug pages need ${needed}; this request has no token, and ${reason}`);
  }

  async #viewerOfToken(authorization: string, address: string): Promise<Viewer> {
    const [, bearer] = /^bearer +(\S+) *$/i.exec(authorization) ?? [];
    if (bearer === undefined) throw new CtlError('unauthenticated', 'expected "authorization: Bearer <token>"');
    const { callers, home } = this.#options;
    const [authentication, mesh] = [callers(), home()];
    if (authentication === undefined || mesh === undefined) {
      throw new CtlError('unavailable', 'tokens cannot be verified yet: configuration is being read');
    }
    const leave = this.#verifying.enter(address);
    if (leave === undefined) throw new CtlError('unavailable', 'too many tokens are being verified, try again later');
    try {
      const { identity } = await authentication.authenticate({ certificates: [], bearer, peer: address });
      return viewerOfIdentity(identity, mesh);
    } finally {
      leave();
    }
  }

  #root(): string {
    const root = this.#options.home()?.rootNamespace;
    return root === undefined ? 'the root namespace' : `namespace ${root}`;
  }
}

/**
 * What a caller may see. Throws CtlError `permission_denied` for one of another trust domain, whose namespace is not
 * the namespace of the same name in this mesh.
 */
export function viewerOfIdentity(
  { trustDomain, namespace }: Identity,
  mesh: { readonly rootNamespace: string; readonly trustDomain: string },
): Viewer {
  if (trustDomain !== mesh.trustDomain) {
    throw new CtlError(
      'permission_denied',
      `debug pages are served only to callers of trust domain ${mesh.trustDomain}`,
    );
  }
  return namespace === mesh.rootNamespace ? 'all' : { namespace };
}
