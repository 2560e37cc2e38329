#!/usr/bin/env node
// The program ctl-discovery. An older Node cannot even read the rest of the program, so this file uses nothing new and
// loads the rest only after the version was looked at.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { NO_DEBUGGER_ON_SIGNAL, restartWith } from './node-options.ts';
import { COMPILED } from './paths.ts';

if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-discovery: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

// V8 keeps the young generation at the size that it once grew to: with thousands of proxies coming at once that is 200
// MB which are never needed again.
const YOUNG_GENERATION = '--max-semi-space-size=8';
// glibc gives each thread heaps of its own, and keeps larger and larger blocks in them once it has seen one freed: what
// a thousand proxies' requests took for a moment stays resident between what they need for good.
const MALLOC = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '131072' };
if (process.argv[2] === 'discovery') {
  // What the build compiled ahead, for this thread and those that it starts. Node would not look there by itself.
  const compiled = join(import.meta.dirname, COMPILED);
  const ahead = existsSync(compiled) ? { NODE_COMPILE_CACHE: compiled, NODE_COMPILE_CACHE_PORTABLE: '1' } : {};
  restartWith({ options: [YOUNG_GENERATION, NO_DEBUGGER_ON_SIGNAL], variables: { ...MALLOC, ...ahead } });
}

import('./cli/discovery.ts')
  .then((cli) => cli.runCtlDiscovery(process.argv.slice(2), process))
  // Ends even if something is still open: by now everything that must be written has been.
  .then((code) => process.exit(code));
