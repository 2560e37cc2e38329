/** Names of worker threads, for people who look at the threads of the program through the inspector of Node.js. */

const KEY = 'meshd.thread';

/** Called by the entry point of a worker. */
export function nameThread(name: string): void {
  Reflect.set(globalThis, Symbol.for(KEY), name);
}

/** JavaScript that gives the name of the thread in which it is evaluated; undefined for a thread without one. */
export const THREAD_NAME_EXPRESSION = `globalThis[Symbol.for(${JSON.stringify(KEY)})]`;
