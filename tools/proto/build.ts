/**
 * Compiles the Envoy messages of `proto/messages.ts` into `proto/gen/`, which git ignores:
 * `envoy.js` (static encoders and decoders), `envoy.d.ts` (strict types) and `root.json`/`root.js` (descriptors, for
 * reading and printing by reflection). `extensions.js` are the descriptors of all other messages of Envoy's
 * configuration, most of them of extensions, and `documents.js` those of the mesh's documents. `agent.js` and
 * `agent.d.ts` are the same code for the agent's messages alone.
 *
 * Run it with `node tools/setup.mjs proto`, which does so only when an input has changed.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import protobuf from 'protobufjs';
import pbjs from 'protobufjs-cli/pbjs.js';
import { AGENT_MESSAGES, COMPILED_MESSAGES, DOCUMENT_MESSAGES } from '../../proto/messages.ts';
import { declarations } from './declarations.ts';
import { messagesIn } from './descriptors.ts';
import { lazyModule } from './lazy.ts';
import { loadTree, pruneTree, reachableTypes } from './tree.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const GENERATED = join(REPOSITORY, 'proto/gen');

/** Replaces a generated file atomically for processes that load it at the same time. */
function write(name: string, text: string): void {
  const path = join(GENERATED, name);
  writeFileSync(`${path}.tmp`, text);
  renameSync(`${path}.tmp`, path);
}

function writeDescriptor(name: string, reader: string, text: string): void {
  write(`${name}.js`, `export function ${reader}() {\n  return JSON.parse(${JSON.stringify(text)});\n}\n`);
  write(`${name}.d.ts`, `import type { INamespace } from 'protobufjs';\nexport function ${reader}(): INamespace;\n`);
}

/** Generates static code from the file with the pruned tree. `root`: the name under which protobufjs registers it. */
function staticModule(descriptorFile: string, root: string): Promise<string> {
  const off = ['verify', 'convert', 'delimited', 'service', 'comments', 'beautify'].map((feature) => `--no-${feature}`);
  const shape = ['--target', 'static-module', '--wrap', 'esm', '--dependency', 'protobufjs/minimal.js'];
  return new Promise((resolve, reject) => {
    pbjs.main([...shape, '--root', root, ...off, descriptorFile], (error, output) => {
      if (error !== null) reject(error);
      else if (output === undefined) reject(new Error('the protobufjs generator returned nothing'));
      else resolve(output);
    });
  });
}

/** Messages that EnvoyFilters may use. */
const CONFIGURATION = /^\.envoy\.(?:extensions|config)\..*\.v3(?:alpha)?\./;

const descriptors = readFileSync(join(REPOSITORY, 'proto/descriptors/envoy.binpb'));
const tree = loadTree(REPOSITORY, descriptors, Object.keys(COMPILED_MESSAGES));
const types = reachableTypes(tree, Object.values(COMPILED_MESSAGES).flat());
const descriptor = pruneTree(types);
const pruned = protobuf.Root.fromJSON(descriptor);
pruned.resolveAll();

mkdirSync(GENERATED, { recursive: true });
const json = JSON.stringify(descriptor);
write('root.json', json);
// Also as a module, which is bundled: no file is needed at run time.
// A function, which costs neither time nor memory until it is called: most generation workers never read descriptors.
writeDescriptor('root', 'readDescriptor', json);
const configuration = messagesIn(tree).flatMap(({ fullName }) => (CONFIGURATION.test(fullName) ? [fullName] : []));
const others = reachableTypes(tree, configuration).difference(types);
writeDescriptor('extensions', 'readExtensions', JSON.stringify(pruneTree(others)));
writeDescriptor('documents', 'readDocuments', JSON.stringify(pruneTree(reachableTypes(tree, DOCUMENT_MESSAGES))));
write('envoy.d.ts', declarations(pruned));
write('envoy.js', lazyModule(await staticModule(join(GENERATED, 'root.json'), 'meshd')));

const agentDescriptor = pruneTree(reachableTypes(tree, AGENT_MESSAGES));
const agentRoot = protobuf.Root.fromJSON(agentDescriptor);
agentRoot.resolveAll();
write('agent.json', JSON.stringify(agentDescriptor));
write('agent.d.ts', declarations(agentRoot));
// Another root: a process of a test loads both modules.
write('agent.js', lazyModule(await staticModule(join(GENERATED, 'agent.json'), 'meshd-agent')));
process.stdout.write(`proto: ${types.size} messages and enums compiled\n`);
