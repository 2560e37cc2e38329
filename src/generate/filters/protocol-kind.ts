/** The kinds of protocols that listeners distinguish. */
import type { ModelSettings, Protocol } from '../../model/index.ts';
import { HTTP_INSPECTOR, hasExtension, type ProxyCapabilities, TLS_INSPECTOR } from './extensions.ts';

/** `auto`: whether it is HTTP is detected from a connection's first bytes. */
export type ProtocolKind = 'http' | 'tcp' | 'auto';

export function isHttp(protocol: Protocol): boolean {
  return protocol === 'HTTP' || protocol === 'HTTP2' || protocol === 'GRPC' || protocol === 'GRPC-Web';
}

/** Whether connections begin with TLS that the proxy does not terminate: the server name distinguishes them. */
export function isTls(protocol: Protocol): boolean {
  return protocol === 'HTTPS' || protocol === 'TLS';
}

export function protocolKind(protocol: Protocol, sniff: boolean): ProtocolKind {
  if (isHttp(protocol)) return 'http';
  return protocol === 'Unsupported' && sniff ? 'auto' : 'tcp';
}

/** Whether protocol detection is enabled and supported by the view's proxies. */
export function sniffs(
  settings: ModelSettings,
  direction: 'sniffOutbound' | 'sniffInbound',
  view: ProxyCapabilities,
): boolean {
  return settings[direction] && hasExtension(view, HTTP_INSPECTOR) && hasExtension(view, TLS_INSPECTOR);
}
