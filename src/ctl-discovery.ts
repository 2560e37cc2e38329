#!/usr/bin/env node
// The program ctl-discovery. An older Node cannot even read the rest of the program, so this file uses nothing new and
// loads the rest only after the version was looked at.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { COMPILED } from './paths.ts';

if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-discovery: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

// What can only be said when a process starts, so that the service starts once more, as the same process. Whoever says it themselves
// is not contradicted.
//
// V8 keeps the young generation at the size that it once grew to: with thousands of proxies coming at once that is 200 MB which
// are never needed again.
const YOUNG_GENERATION = '--max-semi-space-size';
// glibc gives each thread heaps of its own, and keeps larger and larger blocks in them once it has seen one freed: what a thousand
// proxies' requests took for a moment stays resident between what they need for good.
const MALLOC = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '131072' };
if (process.argv[2] === 'discovery') {
  const said = [...process.execArgv, process.env.NODE_OPTIONS ?? ''];
  const options = said.some((option) => option.includes(YOUNG_GENERATION)) ? [] : [`${YOUNG_GENERATION}=8`];
  // What the build compiled ahead, for this thread and those that it starts. Node would not look there by itself.
  const compiled = join(import.meta.dirname, COMPILED);
  const ahead = existsSync(compiled) ? { NODE_COMPILE_CACHE: compiled, NODE_COMPILE_CACHE_PORTABLE: '1' } : {};
  const variables = Object.entries({ ...MALLOC, ...ahead }).filter(([name]) => process.env[name] === undefined);
  if (options.length + variables.length > 0) {
    const args = [...options, ...process.execArgv, ...process.argv.slice(1)];
    process.execve?.(process.execPath, [process.execPath, ...args], {
      ...process.env,
      ...Object.fromEntries(variables),
    });
  }
}

import('./cli/index.ts')
  .then((cli) => cli.runCtlDiscovery(process.argv.slice(2), process))
  // Ends even if something is still open: by now everything that must be written has been.
  .then((code) => process.exit(code));
