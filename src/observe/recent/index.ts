/** What happened in the last minutes, in memory of fixed size, for pages of the running program. */
export { EventRing } from './events.ts';
export { type CompletedPush, PushHistory, type PushStage } from './push-history.ts';
export { type Levels, SeriesRing } from './series.ts';
export type { RecentEvent, RecentPush, RecentSeries } from './shapes.ts';
export { Times } from './times.ts';
