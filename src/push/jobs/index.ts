/** Generation jobs: where they run (worker threads or the main thread), and what crosses the thread border. */
export { type GeneratedJob, type Generator, InlineGenerator, type Previewer, type PreviewSource } from './generator.ts';
export { type Lane, laneOf } from './job-queue.ts';
export { MeshCopy } from './mesh-copy.ts';
export { defaultWorkers, PoolGenerator } from './pool-generator.ts';
