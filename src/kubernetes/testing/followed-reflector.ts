/** A reflector of a scripted API server, with what it reported. */

import { ApiError } from '../api-error.ts';
import { Connection } from '../connection.ts';
import type { ResourceType } from '../objects.ts';
import { Reflector } from '../reflector.ts';
import { fastClock } from './fast-clock.ts';
import { ScriptedApiServer } from './scripted-api-server.ts';

export const PATH = '/apis/networking.mesh.io/v1/gateways';
export const TYPE: ResourceType = {
  group: 'networking.mesh.io',
  version: 'v1',
  plural: 'gateways',
  kind: 'Gateway',
  namespaced: true,
};

export const cleanup: (() => Promise<void> | void)[] = [];

/** Ends the servers and reflectors of a test. */
export async function closeAll(): Promise<void> {
  for (const close of cleanup.splice(0).reverse()) await close();
}

/**
 * A reflector with what it reported: the objects that follow from lists and changes, and a line for each call.
 *
 * @param speed how many times as fast as the machine's the reflector's clock is
 */
export async function follow(
  server: ScriptedApiServer,
  {
    port = server.port,
    watchSeconds = 300,
    speed = 50,
    onChange = (): void => {},
    pause = (_objects: number): number => 0,
  } = {},
) {
  const objects = new Map<string, unknown>();
  const calls: string[] = [];
  const failures: ApiError[] = [];
  const nameOf = ({ metadata }: { metadata: { name: string } }) => metadata.name;
  const connection = new Connection({
    access: server.access({ port }),
    clock: fastClock(50),
    random: () => 0,
    userAgent: 'test',
  });
  connection.observe({ lost: (reason) => calls.push(`lost: ${reason}`), reached: () => calls.push('reached') });
  const options = { connection, type: TYPE, clock: fastClock(speed), random: () => 0, watchSeconds, pause };
  const reflector = new Reflector<{ name: string; spec: unknown }>(options, {
    convert: (object) => ({ name: nameOf(object), spec: object.spec }),
    onList: (items) => {
      objects.clear();
      for (const { name, spec } of items) objects.set(name, spec);
      calls.push(`list ${[...objects.keys()].sort().join()}`);
    },
    onChanges: (changes) => {
      for (const change of changes) {
        onChange();
        if (change.type === 'deleted') objects.delete(nameOf(change.object));
        else objects.set(change.item.name, change.item.spec);
        calls.push(change.type === 'deleted' ? `delete ${nameOf(change.object)}` : `set ${change.item.name}`);
      }
    },
    onFailure: (error, verb) => {
      calls.push(`${verb} failed`);
      if (error instanceof ApiError) failures.push(error);
    },
    onRecovered: () => calls.push('recovered'),
  });
  cleanup.push(async () => {
    await reflector.close();
    connection.close();
  });
  reflector.start();
  const names = () => [...objects.keys()].sort().join();
  const lists = () => calls.filter((call) => call.startsWith('list ') && !call.endsWith('failed')).length;
  return { objects, calls, failures, names, lists, reflector };
}

/** A server with these gateways. */
export async function scripted(...names: readonly string[]): Promise<ScriptedApiServer> {
  const server = await ScriptedApiServer.start();
  cleanup.push(() => server.stop());
  server.serve(PATH);
  for (const name of names) server.set(PATH, gateway(name));
  return server;
}

export const gateway = (name: string, spec: unknown = {}) => ({ metadata: { name, namespace: 'shop' }, spec });

/** Lists that were asked for, streaming or in pages. */
export const listRequests = (server: ScriptedApiServer) =>
  server.requests.filter(({ query }) => query.get('watch') !== '1' || query.has('sendInitialEvents'));
