/**
 * `dashboard`: prints the address of the introspection pages of a running program, if it responds there. The pages are
 * open on one machine only: a local forward leads to those of a Pod.
 */
import { messageOf } from '../../core/errors.ts';
import { httpCall } from '../../core/network/http-call.ts';
import { hostPort } from '../../core/network/listen.ts';
import { discoveryCommonFlags, flagSettings } from '../../settings/index.ts';
import { unavailable } from '../errors.ts';
import { type Command, command } from '../program.ts';

const TIMEOUT_MS = 5000;

export function dashboardCommand(): Command {
  return command({
    name: 'dashboard',
    summary: 'Print the address of the introspection pages, for a browser.',
    flags: discoveryCommonFlags,
    async run({ flags, io }) {
      const { introspectAddress, introspectPort } = flagSettings(discoveryCommonFlags, flags);
      const host = introspectAddress === '*' ? 'localhost' : introspectAddress;
      const url = new URL(`http://${hostPort({ host, port: introspectPort })}/`);
      const status = await httpCall({ to: url, timeoutMs: TIMEOUT_MS }, (response) => {
        response.destroy();
        return response.statusCode ?? 0;
      }).catch((error: unknown) => {
        throw unavailable(
          `no introspection pages at ${url}: ${messageOf(error)}; see --introspect_port, or forward it`,
        );
      });
      if (status >= 400) throw unavailable(`${url} returned HTTP ${status}`);
      io.stdout.write(`${url}\n`);
      return 0;
    },
  });
}
