#!/usr/bin/env node
import { NO_DEBUGGER_ON_SIGNAL, restartWith } from './node-options.ts';

// The program ctl-agent. An older Node cannot even read the rest of the program, so this file uses nothing new and
// loads the rest only after the version was looked at.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-agent: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

// An agent idles beside every workload: optimizing compilers and a young generation that grows would cost it a third of
// its memory, and save nothing that anybody would notice.
if (process.argv.includes('proxy')) {
  restartWith({ options: ['--no-opt', '--no-maglev', '--semi-space-growth-factor=1', NO_DEBUGGER_ON_SIGNAL] });
}

import('./cli/agent.ts')
  .then((cli) => cli.runCtlAgent(process.argv.slice(2), process))
  // Ends even if something is still open: by now everything that must be written has been.
  .then((code) => process.exit(code));
