/** The sources of the resources that a patched resource refers to. */
import type { envoy } from '../../protobuf/index.ts';

/** Whether resources come from a file or another server, so that this control plane does not provide them. */
export function isElsewhere(source: envoy.config.core.v3.ConfigSource.Input | null | undefined): boolean {
  return Boolean(source?.path || source?.pathConfigSource || source?.apiConfigSource);
}
