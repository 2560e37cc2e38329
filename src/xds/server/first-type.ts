/** What a stream is for: its first request says whether it is of a proxy. */
import { isConfigType } from '../../mcp/index.ts';
import type { AnyRequest } from '../protocol/index.ts';
import { ConfigRequests, type ConfigServing } from './config-requests.ts';
import { DebugStream, type DebugStreamDeps, isDebugType } from './debug-stream.ts';

/** What takes the requests of a stream that is not of a proxy. */
export interface OtherRequests {
  receive(request: AnyRequest): void;
  close(): void;
}

export interface OtherStreamDeps extends DebugStreamDeps {
  /** Absent: no documents are served. */
  readonly serving: ConfigServing | undefined;
}

/** What a stream is for that is not of a proxy; undefined for one of a proxy. */
function openOther({ typeUrl }: AnyRequest, { serving, ...deps }: OtherStreamDeps): OtherRequests | undefined {
  if (isDebugType(typeUrl)) return new DebugStream(deps);
  return serving !== undefined && isConfigType(typeUrl) ? new ConfigRequests({ ...deps, serving }) : undefined;
}

/** Passes the requests of a stream on: those of a proxy, or to what its first request opens. */
export function byFirstRequest<Request extends AnyRequest>(
  proxy: { receive(request: Request): void },
  deps: OtherStreamDeps,
): { receive(request: Request): void; close(): void } {
  let other: OtherRequests | 'none' | undefined;
  return {
    receive(request) {
      other ??= openOther(request, deps) ?? 'none';
      if (other === 'none') proxy.receive(request);
      else other.receive(request);
    },
    close() {
      if (other !== 'none') other?.close();
    },
  };
}
