#!/usr/bin/env node
import { NO_DEBUGGER_ON_SIGNAL, restartWith } from './node-options.ts';

// The program ctl-agent. An older Node.js cannot parse the rest of the program, so this file uses no new syntax and
// loads the rest only after it has checked the version.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-agent: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

// An agent is idle most of the time beside every workload. Optimizing compilers and a growing young generation would
// cost a third more memory for no noticeable gain, and a heap that is not kept small twice as much after many requests.
if (process.argv.includes('proxy')) {
  restartWith({
    options: ['--no-opt', '--no-maglev', '--optimize-for-size', '--semi-space-growth-factor=1', NO_DEBUGGER_ON_SIGNAL],
  });
}

import('./cli/agent.ts')
  .then((cli) => cli.runCtlAgent(process.argv.slice(2), process))
  // Ends even if something is still open: everything that must be written has been written.
  .then((code) => process.exit(code));
