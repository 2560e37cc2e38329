/**
 * Replaces `proto/descriptors/envoy.binpb`, the descriptors of Envoy's API of a release. Envoy publishes its
 * .proto files in no package of a registry, and go-control-plane is generated from them: its compiled messages contain
 * the descriptors. With Go:
 *
 *   node tools/proto/update-descriptors.ts v1.40.0
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const MODULE = 'github.com/envoyproxy/go-control-plane/envoy';
/** What Envoys are configured with, ask for, and print. */
const FOLDERS = [
  'admin',
  'config',
  'extensions',
  'service/accesslog',
  'service/auth',
  'service/discovery',
  'service/status',
];
const PACKAGES = ['github.com/cncf/xds/go/xds/type/v3'];
const DESCRIPTORS = join(import.meta.dirname, '../../proto/descriptors/envoy.binpb');
const MAX_BYTES = 64 * 1024 * 1024;

const PROGRAM = (packages: readonly string[]): string => `package main

import (
	"os"
	"sort"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

${packages.map((name) => `	_ "${name}"`).join('\n')}
)

func main() {
	files := map[string]*descriptorpb.FileDescriptorProto{}
	set := &descriptorpb.FileDescriptorSet{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if files[file.Path()] != nil {
			return
		}
		files[file.Path()] = protodesc.ToFileDescriptorProto(file)
		imports := file.Imports()
		for i := 0; i < imports.Len(); i++ {
			add(imports.Get(i).FileDescriptor)
		}
		set.File = append(set.File, files[file.Path()])
	}
	var all []protoreflect.FileDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		all = append(all, file)
		return true
	})
	sort.Slice(all, func(i, j int) bool { return all[i].Path() < all[j].Path() })
	for _, file := range all {
		add(file)
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(out)
}
`;

const [version] = process.argv.slice(2);
if (version === undefined) throw new Error(`expected a version of ${MODULE}`);
const folder = mkdtempSync(join(tmpdir(), 'meshd-descriptors-'));
try {
  const go = (...args: readonly string[]) =>
    execFileSync('go', args, { cwd: folder, maxBuffer: MAX_BYTES, stdio: ['ignore', 'pipe', 'inherit'] });
  go('mod', 'init', 'descriptors');
  go('get', `${MODULE}@${version}`);
  const patterns = FOLDERS.map((name) => `${MODULE}/${name}/...`);
  const listed = go('list', '-e', ...patterns)
    .toString()
    .trim()
    .split('\n');
  const packages = [...listed.filter((name) => /\/v3(?:alpha)?$/.test(name)), ...PACKAGES];
  writeFileSync(join(folder, 'main.go'), PROGRAM(packages.sort()));
  go('mod', 'tidy');
  writeFileSync(DESCRIPTORS, go('run', '.'));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
