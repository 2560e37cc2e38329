#!/usr/bin/env node
// The program ctl-discovery. An older Node.js cannot parse the rest of the program, so this file uses no new syntax and
// loads the rest only after it has checked the version.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { NO_DEBUGGER_ON_SIGNAL, restartWith } from './node-options.ts';
import { COMPILED } from './paths.ts';

if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-discovery: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

// V8 never shrinks the young generation. When thousands of proxies connect at once it would grow to 200 MB, which are
// not needed afterwards.
const YOUNG_GENERATION = '--max-semi-space-size=8';
// Collecting a young generation of this size takes 2 ms. Several threads spend much of that on waiting for each other,
// on busy cores most of it: with them, a cold start of a thousand proxies takes a few per cent more CPU time.
const ONE_COLLECTOR = '--no-parallel-scavenge';
// glibc gives each thread its own heaps and keeps larger and larger freed blocks in them. Without these limits the
// memory of a thousand proxies' requests would stay resident.
const MALLOC = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '131072' };
if (process.argv[2] === 'discovery') {
  // The code that the build compiled, for this thread and its workers. Node.js would not look there by itself.
  const compiled = join(import.meta.dirname, COMPILED);
  const compileCache = existsSync(compiled) ? { NODE_COMPILE_CACHE: compiled, NODE_COMPILE_CACHE_PORTABLE: '1' } : {};
  const options = [YOUNG_GENERATION, ONE_COLLECTOR, NO_DEBUGGER_ON_SIGNAL];
  restartWith({ options, variables: { ...MALLOC, ...compileCache } });
}

import('./cli/discovery.ts')
  .then((cli) => cli.runCtlDiscovery(process.argv.slice(2), process))
  // Ends even if something is still open: everything that must be written has been written.
  .then((code) => process.exit(code));
