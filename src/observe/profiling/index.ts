/** Profiles of the running program, by HTTP. */
export { createProfiler, type Profiler } from './profiler.ts';
