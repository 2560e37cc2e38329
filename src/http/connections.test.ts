import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpConnections } from './connections.ts';

class Fake {
  readonly name: string;
  idle = true;
  closed = false;

  constructor(name: string) {
    this.name = name;
  }

  close(): void {
    this.closed = true;
  }
}

function fill(connections: HttpConnections<Fake>, address: string, count: number): Fake[] {
  return Array.from({ length: count }, (_, index) => {
    const fake = new Fake(`${address}#${index}`);
    assert.equal(connections.admit(address, fake), 'admitted');
    return fake;
  });
}

const closedOf = (fakes: readonly Fake[]): string[] => fakes.filter(({ closed }) => closed).map(({ name }) => name);

test('at its share, an address loses its oldest idle connection', () => {
  const connections = new HttpConnections<Fake>(8);
  const [first, ...own] = fill(connections, '10.0.0.1', 6);
  const others = fill(connections, '10.0.0.2', 1);
  assert.ok(first !== undefined);
  first.idle = false;
  assert.equal(connections.admit('10.0.0.1', new Fake('new')), 'admitted for another');
  assert.deepEqual(closedOf([first, ...own, ...others]), ['10.0.0.1#1']);
  assert.equal(connections.size, 7);
});

test('at the limit, the address with most connections loses its oldest idle one', () => {
  const connections = new HttpConnections<Fake>(8);
  const few = fill(connections, '10.0.0.2', 3);
  const many = fill(connections, '10.0.0.1', 5);
  assert.equal(connections.admit('10.0.0.3', new Fake('new')), 'admitted for another');
  assert.equal(connections.admit('10.0.0.3', new Fake('newer')), 'admitted for another');
  assert.deepEqual(closedOf([...few, ...many]), ['10.0.0.1#0', '10.0.0.1#1']);
  assert.equal(connections.size, 8);
});

test('one connection from each of many addresses does not exclude others', () => {
  const connections = new HttpConnections<Fake>(8);
  const all = Array.from({ length: 8 }, (_, index) => fill(connections, `10.0.1.${index}`, 1)).flat();
  assert.equal(connections.admit('10.0.0.3', new Fake('new')), 'admitted for another');
  assert.deepEqual(closedOf(all), ['10.0.1.0#0']);
});

test('no connection is closed for an address with more', () => {
  const connections = new HttpConnections<Fake>(8);
  const few = fill(connections, '10.0.0.2', 3);
  const many = fill(connections, '10.0.0.1', 5);
  assert.equal(connections.admit('10.0.0.1', new Fake('new')), 'admitted for another');
  assert.deepEqual(closedOf([...few, ...many]), ['10.0.0.1#0']);
});

test('connections with a response in progress stay; a new one is refused when there are only such', () => {
  const connections = new HttpConnections<Fake>(4);
  const all = [...fill(connections, '10.0.0.1', 3), ...fill(connections, '10.0.0.2', 1)];
  for (const one of all) one.idle = false;
  assert.equal(connections.admit('10.0.0.3', new Fake('new')), 'refused');
  const [first] = all;
  assert.ok(first !== undefined);
  first.idle = true;
  assert.equal(connections.admit('10.0.0.3', new Fake('new')), 'admitted for another');
  assert.deepEqual(closedOf(all), [first.name]);
});

test('a closed connection is released once', () => {
  const connections = new HttpConnections<Fake>(4);
  const [one] = fill(connections, '10.0.0.1', 3);
  assert.ok(one !== undefined);
  connections.leave(one);
  connections.leave(one);
  assert.equal(connections.size, 2);
  fill(connections, '10.0.0.1', 1);
});
