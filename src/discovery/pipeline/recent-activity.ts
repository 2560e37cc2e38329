/** Keeps what happened in the last minutes, for pages: it listens beside the observers of metrics and logs. */
import { systemClock } from '../../core/clock.ts';
import { followLog, recordText } from '../../logging/index.ts';
import { EventRing, type Levels, PushHistory, SeriesRing } from '../../observe/index.ts';
import { type ContentHolder, EarlierContents, type EngineObserver } from '../../push/index.ts';
import type { XdsObserver } from '../../xds/index.ts';
import type { PublicationListener } from './publisher.ts';

export class RecentActivity {
  readonly series = new SeriesRing({ wall: Date.now, later: systemClock.setTimer });
  readonly pushes = new PushHistory({ now: systemClock.now, wall: Date.now });
  readonly events = new EventRing();
  readonly contents = new EarlierContents({ wall: Date.now, now: systemClock.now, later: systemClock.setTimer });
  readonly #unfollow = followLog((record) => {
    const { time, level, scope } = record;
    this.events.note({ at: Math.round(time), level, scope, message: recordText(record) });
  });
  #proxies = 0;

  /** To be called before the engine publishes the change, so that its work counts for this one. */
  readonly published: PublicationListener = ({ snapshot, resources, eventTime }, milliseconds) => {
    this.series.changed();
    const keys = resources.map(({ key }) => key);
    this.pushes.published({ version: snapshot.version, eventTime, keys, milliseconds });
  };

  besideEngine(observer: EngineObserver): EngineObserver {
    const { series, pushes } = this;
    return {
      ...observer,
      triggered(reason) {
        pushes.triggered(reason);
        observer.triggered(reason);
      },
      converged(milliseconds) {
        series.converged(milliseconds);
        observer.converged(milliseconds);
      },
      stage(stage, milliseconds) {
        pushes.stage(stage, milliseconds);
        observer.stage(stage, milliseconds);
      },
      pushBegan(connectionId, eventTime) {
        pushes.began(connectionId, eventTime);
        observer.pushBegan(connectionId, eventTime);
      },
      pushEnded(connectionId, milliseconds) {
        pushes.ended(connectionId, milliseconds);
        observer.pushEnded(connectionId, milliseconds);
      },
    };
  }

  besideXds(observer: XdsObserver): XdsObserver {
    const { series, pushes } = this;
    return {
      ...observer,
      connected: (stream, node) => {
        this.#proxies++;
        observer.connected(stream, node);
      },
      disconnected: (stream) => {
        this.#proxies--;
        observer.disconnected(stream);
      },
      pushed(response) {
        series.pushed(response.bytes);
        pushes.sent(response.connectionId, response.bytes);
        observer.pushed(response);
      },
      rejected(response) {
        series.rejected();
        observer.rejected(response);
      },
    };
  }

  /** Reads the levels of charts, and what proxies should have, from now on. */
  sample(levels: () => Pick<Levels, 'queued'>, proxies: () => Iterable<ContentHolder>): void {
    this.contents.follow(proxies);
    this.series.sample(() => {
      const { rss, heapUsed } = process.memoryUsage();
      return { ...levels(), proxies: this.#proxies, rss, heap: heapUsed };
    });
  }

  close(): Promise<void> {
    this.series.close();
    this.#unfollow();
    return this.contents.close();
  }
}
