/** Test support: redirections. */
import { type RedirectionSettings, redirectionOf } from '../options.ts';
import type { Redirection } from '../types.ts';

/** The settings without flags and variables. */
export const DEFAULT_SETTINGS: RedirectionSettings = {
  proxyPort: '15001',
  inboundCapturePort: '15006',
  inboundTunnelPort: '15008',
  meshInboundInterceptionMode: '',
  meshInboundPorts: '',
  meshInboundTproxyMark: '',
  meshInboundTproxyRouteTable: '',
  meshLocalExcludePorts: '',
  meshLocalOutboundPortsExclude: '',
  meshOutboundPorts: '',
  meshServiceCidr: '',
  meshServiceExcludeCidr: '',
  orchVirtInterfaces: '',
  proxyUid: '',
  proxyGid: '',
  dnsAgent: '',
  dnsCapture: '',
  dnsAddress: ':15053',
};

export function redirection(changes: Partial<RedirectionSettings>, nameservers: readonly string[] = []): Redirection {
  return redirectionOf({ ...DEFAULT_SETTINGS, ...changes }, { proxyUser: undefined, nameservers });
}
