/** Learned hosts in a ConfigMap of the program's namespace, which all replicas of a revision read and write. */

import { createFailureLog, type Log } from '../../core/log.ts';
import { isObject } from '../../core/objects.ts';
import { ApiError, CONFIG_MAPS, Informer, type KubernetesClient } from '../../kubernetes/index.ts';
import type { Place } from './saved-hosts.ts';

const KEY = 'hosts';

export interface ConfigMapOptions {
  readonly client: KubernetesClient;
  readonly namespace: string;
  readonly name: string;
  readonly log: Log;
}

interface Read {
  readonly text: string | undefined;
  readonly version: string | undefined;
}

export function configMap({ client, namespace, name, log }: ConfigMapOptions): Place {
  const title = `ConfigMap ${namespace}/${name}`;
  const what = `${title} with the hosts that sidecars have learned`;
  let received: (text: string | undefined) => void = () => {};
  /** Absent while it does not exist. */
  let known: Read | undefined;
  const informer = new Informer<Read>({
    connection: client.connection,
    type: CONFIG_MAPS,
    namespace,
    name,
    convert: ({ data, metadata: { resourceVersion: version } }) => {
      const text = isObject(data) ? data[KEY] : undefined;
      return { text: typeof text === 'string' ? text : undefined, version };
    },
    onChange: (changes) => {
      for (const { after } of changes) {
        known = after;
        received(after?.text);
      }
    },
    failures: createFailureLog(log, `${what} cannot be read`, `${what} can be read again`),
  });
  return {
    title,
    open(handler) {
      received = handler;
      informer.start();
    },
    async write(text) {
      if (!informer.isSynced) return false;
      const metadata = { name, namespace, ...(known?.version !== undefined && { resourceVersion: known.version }) };
      const object = { metadata, data: { [KEY]: text } };
      try {
        const written =
          known === undefined
            ? await client.create(CONFIG_MAPS, object, { namespace })
            : await client.update(CONFIG_MAPS, name, object, { namespace });
        known = { text, version: written.metadata.resourceVersion };
        return true;
      } catch (error) {
        // Another replica was faster; the watch reports what it has written.
        if (error instanceof ApiError && error.status === 409) return false;
        throw error;
      }
    },
    close: () => informer.close(),
  };
}
