#!/usr/bin/env node
// The program ctl-jwt. An older Node.js cannot parse the rest of the program, so this file uses no new syntax and loads
// the rest only after it has checked the version.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(`ctl-jwt: Node.js 24 or newer is needed, this is ${process.version}\n`);
  process.exit(1);
}

import('./cli/jwt.ts').then((cli) => cli.runCtlJwt(process.argv.slice(2), process)).then((code) => process.exit(code));

// A file without static imports is a module only with an export.
export {};
