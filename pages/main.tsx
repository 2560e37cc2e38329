/** The pages of `ctl-discovery` on its introspection address. */
import type { ComponentChildren, ComponentType } from 'preact';
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { followLinks, type Place, usePlace } from './location.ts';
import { Empty } from './parts/basics.tsx';
import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/details.css';
import './style/parts.css';
import { ConfigurationView } from './views/configuration.tsx';
import { EventsView } from './views/events.tsx';
import { LogsView } from './views/logs.tsx';
import { OverviewView } from './views/overview.tsx';
import { ProcessView, TOPICS } from './views/process.tsx';
import { ProxiesView } from './views/proxies.tsx';
import { ProxyView } from './views/proxy.tsx';
import { PushesView } from './views/pushes.tsx';
import { WhyView } from './views/why.tsx';

interface View {
  readonly title: string;
  readonly show: ComponentType<Place>;
  /** Path of the entry of the navigation that is current. */
  readonly of?: string;
}

const VIEWS: Readonly<Record<string, View>> = {
  '/': { title: 'Overview', show: OverviewView },
  '/homez': { title: 'Overview', show: OverviewView, of: '/' },
  '/proxies': { title: 'Proxies', show: ProxiesView },
  '/proxy': { title: 'Proxy', show: ProxyView, of: '/proxies' },
  '/configuration': { title: 'Configuration', show: ConfigurationView },
  '/pushes': { title: 'Pushes', show: PushesView },
  '/events': { title: 'Events', show: EventsView },
  '/why': { title: 'Why', show: WhyView },
  '/scopez': { title: 'Log levels', show: LogsView },
  ...Object.fromEntries(
    Object.entries(TOPICS).map(([path, title]) => [path, { title, show: ProcessView, of: '/procz' }]),
  ),
};

const NAVIGATION: readonly (readonly [href: string, text: string])[] = [
  ['/', 'Overview'],
  ['/proxies', 'Proxies'],
  ['/pushes', 'Pushes'],
  ['/configuration', 'Configuration'],
  ['/why', 'Why'],
  ['/events', 'Events'],
  ['/scopez', 'Logs'],
  ['/procz', 'Process'],
];

function Frame({ at, children }: { at: string; children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header>
        <span class="name">ctl-discovery</span>
        <nav aria-label="Pages">
          {NAVIGATION.map(([href, text]) => (
            <a key={href} href={href} aria-current={href === at ? 'page' : undefined}>
              {text}
            </a>
          ))}
        </nav>
      </header>
      <main id="content" tabIndex={-1}>
        {children}
      </main>
    </>
  );
}

function App() {
  const place = usePlace();
  const view = VIEWS[place.path];
  useEffect(() => {
    document.title = `${view?.title ?? 'Not found'} · ctl-discovery`;
  }, [view]);
  return (
    <Frame at={view?.of ?? place.path}>
      {view === undefined ? <Empty>There is no such page.</Empty> : <view.show {...place} key={place.path} />}
    </Frame>
  );
}

followLinks(new Set(Object.keys(VIEWS)));
const root = document.getElementById('app');
if (root !== null) render(<App />, root);
