/** Generation jobs: where they run (worker threads or the main thread), and what crosses the thread border. */
export { type GeneratedJob, type Generator, InlineGenerator } from './generator.ts';
export { type Lane, laneOf } from './job-queue.ts';
export { defaultWorkers, PoolGenerator } from './pool-generator.ts';
export { Replica } from './replica.ts';
