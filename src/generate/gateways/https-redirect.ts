/**
 * `httpsRedirect`: plain requests are redirected to HTTPS. Envoy's own way (`require_tls`) keeps the port that the
 * client named, which is the wrong one wherever that is not 80.
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
 * Routes before all others of a host. A client that names the gateway's own port reaches it directly, and is redirected
 * to the gateway's TLS port; one that names no port, or that of a load balancer in front, is redirected to the usual
 * HTTPS port.
 *
 * Requests that reached a trusted proxy in front by TLS have that in `x-forwarded-proto` (which is overwritten for
 * other clients), and are served.
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
  // Clients do not name the usual port. Envoy removes it where they do.
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
