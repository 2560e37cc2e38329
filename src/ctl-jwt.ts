#!/usr/bin/env node
// The program ctl-jwt. An older Node cannot even read the rest of the program, so this file uses nothing new and
// loads the rest only after the version was looked at.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-jwt: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

import('./cli/jwt.ts').then((cli) => cli.runCtlJwt(process.argv.slice(2), process)).then((code) => process.exit(code));

// Without static imports a file is a module only when it says so.
export {};
