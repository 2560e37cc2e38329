/** What a proxy gets of the mesh, and why a proxy on demand holds a resource. */
import type { HeldShown, ProxyConfiguration } from '../../src/debug/shapes.ts';
import { plural } from '../format.ts';

/** In a table: `all`, or the mode and the number of hosts. */
export function ConfigurationCell({ of: { mode, because, hosts } }: { of: ProxyConfiguration }) {
  if (mode === 'all') return <span title={because}>{because === undefined ? 'all' : 'all*'}</span>;
  const { asked = 0, learned = 0, named = 0, kept = 0 } = hosts ?? {};
  return (
    <span title={configurationText({ mode, ...(hosts && { hosts }) })}>
      {mode} <small>{plural(asked + learned + named + kept, 'host')}</small>
    </span>
  );
}

/** In a sentence, with its numbers. */
export function configurationText({ mode, because, hosts }: ProxyConfiguration): string {
  const what = because === undefined ? mode : `${mode}, because ${because}`;
  if (hosts === undefined) return what;
  const { asked, unknown, learned, named, kept } = hosts;
  const parts = [
    `${plural(asked, 'host')} asked for (${unknown} unknown)`,
    `${learned} learned`,
    `${named} named by its Sidecar`,
    `${kept} from before it reconnected`,
  ];
  return `${what}; ${parts.join(', ')}`;
}

/** Nothing for a proxy that gets everything. */
export function OnDemand({ of: shown }: { of: HeldShown | undefined }) {
  if (shown === undefined) return null;
  return (
    <ul class="plain">
      {shown.because.map((reason) => (
        <li key={reason} class={shown.held ? '' : 'warn'}>
          On demand: {reason}
        </li>
      ))}
    </ul>
  );
}
