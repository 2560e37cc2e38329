/** Telemetry documents: settings that apply to nothing. */
import type { Resource } from '../../resources/index.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

type Telemetry = Resource<'Telemetry'>;

/** Entries of `accessLogging` without providers, which change the loggers of wider scopes, where there is none. */
export function* accessLogProviders(mesh: AnalyzedMesh): Findings {
  const { accessLogFile = '', defaultProviders } = mesh.snapshot.mesh;
  if (accessLogFile !== '' || (defaultProviders?.accessLogging ?? []).length > 0) return;
  const documents = [...mesh.documents('Telemetry')];
  const { rootNamespace } = mesh.settings;
  const naming = Map.groupBy(documents.filter(namesProviders), ({ meta }) => meta.namespace);
  for (const document of documents) {
    yield undefined;
    const { namespace } = document.meta;
    const wider = [...(naming.get(rootNamespace) ?? []), ...(naming.get(namespace) ?? [])];
    const entries = document.content.accessLogging ?? [];
    const index = entries.findIndex(({ providers = [], disabled }) => providers.length === 0 && disabled !== true);
    if (index < 0 || wider.some((other) => other !== document)) continue;
    const message = `accessLogging[${index}] names no provider, and there are no loggers that it applies to`;
    yield mesh.finding('IST0157', document, message, [rootNamespace]);
  }
}

function namesProviders({ content: { accessLogging = [] } }: Telemetry): boolean {
  return accessLogging.some(({ providers = [] }) => providers.length > 0);
}
