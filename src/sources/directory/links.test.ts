import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { follow, service } from '../testing/followed-directory.ts';

test('a mounted volume is followed when its hidden link is swapped, three times', async (context) => {
  const { dir, is } = await follow(context, async (dir) => {
    await mkdir(join(dir, '..v0'));
    await writeFile(join(dir, '..v0', 'a.yaml'), service('a'));
    await symlink('..v0', join(dir, '..data'));
    await symlink('..data/a.yaml', join(dir, 'a.yaml'));
  });
  await is({ a: 80 });
  for (const version of [1, 2, 3]) {
    await mkdir(join(dir, `..v${version}`));
    await writeFile(join(dir, `..v${version}`, 'a.yaml'), service('a', 80 + version));
    await symlink(`..v${version}`, join(dir, '..data_tmp'));
    await rename(join(dir, '..data_tmp'), join(dir, '..data'));
    await rm(join(dir, `..v${version - 1}`), { recursive: true });
    await is({ a: 80 + version });
  }
});

test('a linked file is followed at its target', async (context) => {
  const { base, is } = await follow(context, async (dir) => {
    await mkdir(join(dir, '..', 'elsewhere'));
    await writeFile(join(dir, '..', 'elsewhere', 'a.yaml'), service('a'));
    await symlink('../elsewhere/a.yaml', join(dir, 'a.yaml'));
  });
  await is({ a: 80 });
  await writeFile(join(base, 'elsewhere', 'a.yaml'), service('a', 81));
  await is({ a: 81 });
});

test('a link out of the directory gives the files directly in its target, and nothing below', async (context) => {
  const { is, problems, dir, base } = await follow(context, async (dir) => {
    const outside = join(dir, '..', 'outside');
    await mkdir(join(outside, 'deep'), { recursive: true });
    await writeFile(join(outside, 'a.yaml'), service('a'));
    await writeFile(join(outside, 'deep', 'b.yaml'), service('b'));
    await symlink(outside, join(dir, 'team'));
    await symlink('/', join(dir, 'root'));
  });
  await is({ a: 80 });
  const link = join(dir, 'team');
  assert.match(
    problems.get(link) ?? '',
    /links to a directory outside the configuration directory: .* but not the directory below it/,
  );
  assert.match(problems.get(join(dir, 'root')) ?? '', /outside the configuration directory/);
  await writeFile(join(base, 'outside', 'a.yaml'), service('a', 81));
  await is({ a: 81 });
  await rm(join(base, 'outside', 'deep'), { recursive: true });
  await writeFile(join(dir, 'c.yaml'), service('c'));
  await unlink(join(dir, 'root'));
  await is({ a: 81, c: 80 });
});

test('links that form a loop are reported and not followed; other links are followed', async (context) => {
  const { is, problems, dir, until } = await follow(context, async (dir) => {
    await mkdir(join(dir, 'one', 'two'), { recursive: true });
    await mkdir(join(dir, '.releases', '5'), { recursive: true });
    await writeFile(join(dir, 'one', 'a.yaml'), service('a'));
    await writeFile(join(dir, '.releases', '5', 'b.yaml'), service('b'));
    await symlink('.releases/5', join(dir, 'current'));
    await symlink('..', join(dir, 'one', 'two', 'up'));
    await symlink('loop.yaml', join(dir, 'loop.yaml'));
  });
  await is({ a: 80, b: 80 });
  const up = join(dir, 'one', 'two', 'up');
  assert.match(problems.get(up) ?? '', /expected a symbolic link to a directory that does not contain the link/);
  assert.match(problems.get(join(dir, 'loop.yaml')) ?? '', /a symbolic link to itself/);
  await unlink(up);
  await unlink(join(dir, 'loop.yaml'));
  await until('no problem left', () => problems.size === 0);
});

test('a name that is not UTF-8 is reported', async (context) => {
  const { is, problems, dir } = await follow(context, async (dir) => {
    await writeFile(Buffer.concat([Buffer.from(`${dir}/`), Buffer.of(0xff), Buffer.from('.yaml')]), service('x'));
    await writeFile(join(dir, 'a.yaml'), service('a'));
  });
  await is({ a: 80 });
  assert.deepEqual([...problems], [[join(dir, '\ufffd.yaml'), 'expected a name in UTF-8; the file is not read']]);
});
