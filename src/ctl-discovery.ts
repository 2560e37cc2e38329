#!/usr/bin/env node
// The program ctl-discovery. An older Node cannot even read the rest of the program, so this file uses nothing new and
// loads the rest only after the version was looked at.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-discovery: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

// V8 keeps the young generation at the size that it once grew to: with thousands of proxies coming at once that is 200 MB which
// are never needed again. It can only be bounded when the process starts, so the service starts once more, as the same process.
const YOUNG_GENERATION = '--max-semi-space-size';
const given = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].some((option) => option.includes(YOUNG_GENERATION));
if (process.argv[2] === 'discovery' && !given) {
  const options = [`${YOUNG_GENERATION}=8`, ...process.execArgv];
  process.execve?.(process.execPath, [process.execPath, ...options, ...process.argv.slice(1)], process.env);
}

import('./cli/index.ts')
  .then((cli) => cli.runCtlDiscovery(process.argv.slice(2), process))
  // Ends even if something is still open: by now everything that must be written has been.
  .then((code) => process.exit(code));
