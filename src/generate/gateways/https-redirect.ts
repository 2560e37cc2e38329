/**
 * `httpsRedirect`: plain-text requests are redirected to HTTPS. Envoy's own setting (`require_tls`) keeps the port of
 * the request, which is wrong for every port but 80.
 */
import { hostMatches } from '../../model/index.ts';
import { envoy } from '../../protobuf/index.ts';
import type { GatewayPlan } from '../listener-plans/index.ts';
import type { Route } from '../routes/index.ts';

const { MOVED_PERMANENTLY } = envoy.config.route.v3.RedirectAction.RedirectResponseCode;

const HTTP = 80;
const HTTPS = 443;

/** The port that serves a host over TLS: 443 if possible, else the lowest; undefined when there is none. */
export function httpsPort(plan: GatewayPlan, host: string): number | undefined {
  const ports = [...plan.listeners]
    .filter(([, listeners]) =>
      listeners.some(({ servers }) =>
        servers.some((server) => server.kind !== 'http' && server.kind !== 'tcp' && covers(server, host)),
      ),
    )
    .map(([port]) => port);
  return ports.includes(HTTPS) ? HTTPS : ports[0];
}

function covers({ hosts }: { readonly hosts: readonly { readonly host: string }[] }, host: string): boolean {
  return hosts.some((own) => hostMatches(own.host, host));
}

/**
 * The first routes of a host. A client whose request names the gateway's own port reaches the gateway directly, and is
 * redirected to the gateway's TLS port; a client that names no port, or the port of a load balancer in front, is
 * redirected to port 443.
 *
 * Requests that reached a trusted proxy in front over TLS have `x-forwarded-proto: https` and are served. For other
 * clients, Envoy overwrites this header.
 */
export function redirectRoutes(port: number, secure: number | undefined): Route[] {
  const plain = {
    name: 'x-forwarded-proto',
    stringMatch: { exact: 'https', ignoreCase: true },
    invertMatch: true,
    treatMissingHeaderAsEmpty: true,
  };
  const redirect = { httpsRedirect: true, responseCode: MOVED_PERMANENTLY };
  const elsewhere: Route = { match: { prefix: '', headers: [plain] }, redirect };
  if (secure === undefined) return [elsewhere];
  // Clients omit the default port, and Envoy removes it from requests that name it.
  if (port === HTTP) {
    const usual = secure === HTTPS ? {} : { portRedirect: secure };
    return [{ match: { prefix: '', headers: [plain] }, redirect: { ...redirect, ...usual } }];
  }
  const direct = { name: ':authority', stringMatch: { suffix: `:${port}` } };
  return [
    { match: { prefix: '', headers: [plain, direct] }, redirect: { ...redirect, portRedirect: secure } },
    elsewhere,
  ];
}
