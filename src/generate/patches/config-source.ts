/** Where an Envoy gets the resources that a patched one refers to. */
import type { envoy } from '../../protobuf/index.ts';

/** Whether resources come from a file or from another server. Then nothing here has to provide them. */
export function isElsewhere(source: envoy.config.core.v3.ConfigSource.Input | null | undefined): boolean {
  return Boolean(source?.path || source?.pathConfigSource || source?.apiConfigSource);
}
