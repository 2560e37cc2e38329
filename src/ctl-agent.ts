#!/usr/bin/env node
import { NO_DEBUGGER_ON_SIGNAL, restartWith } from './node-options.ts';

// The program ctl-agent. An older Node.js cannot parse the rest of the program, so this file uses no new syntax and
// loads the rest only after it has checked the version.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-agent: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

// An agent is idle most of the time beside every workload. A growing young generation would cost memory for no
// noticeable gain, and a heap that is not kept small twice as much memory after many requests. Optimizing compilers
// cost memory, too, but without them a DNS query costs twice as much CPU time: code must run much more often than
// V8's defaults say before it is compiled, so that an idle agent compiles nothing. More threads of V8 and arenas of
// malloc (a variable that Envoy inherits; its own allocator ignores it) would keep memory that was freed.
if (process.argv.includes('proxy')) {
  restartWith({
    options: [
      '--invocation-count-for-maglev=2000',
      '--invocation-count-for-turbofan=20000',
      '--no-use-osr',
      '--v8-pool-size=1',
      '--optimize-for-size',
      '--semi-space-growth-factor=1',
      NO_DEBUGGER_ON_SIGNAL,
    ],
    variables: { MALLOC_ARENA_MAX: '1' },
  });
}

import('./cli/agent.ts')
  .then((cli) => cli.runCtlAgent(process.argv.slice(2), process))
  // Ends even if something is still open: everything that must be written has been written.
  .then((code) => process.exit(code));
