/** The cloud of a workload: CLOUD_METADATA and CLOUD_CLUSTER_URL. */
import { CtlError } from '../../core/errors.ts';
import type { AgentSettings } from '../../settings/index.ts';

export interface Cloud {
  /** Node metadata PLATFORM_METADATA, with the keys that Istio's agents send; undefined without any. */
  readonly platform: Readonly<Record<string, string>> | undefined;
  /** CLOUD_CLUSTER_URL, or the URL of the cluster of CLOUD_METADATA; undefined without a cluster. */
  readonly clusterUrl: string | undefined;
}

const SHAPE = '<project_id>|<project_number>|<cluster_name>|<cluster_zone>';

/** Throws CtlError invalid_argument that names a malformed variable. */
export function parseCloud(settings: Pick<AgentSettings, 'cloudMetadata' | 'cloudClusterUrl'>): Cloud {
  const { cloudMetadata, cloudClusterUrl } = settings;
  const [project = '', number = '', cluster = '', zone = ''] = parts(cloudMetadata);
  if (cloudClusterUrl !== '' && !/^https?:\/\/\S+$/.test(cloudClusterUrl))
    throw invalid('CLOUD_CLUSTER_URL', cloudClusterUrl, 'not a URL such as https://host/path');
  const whole = project !== '' && cluster !== '' && zone !== '';
  const ofMetadata = whole
    ? `https://container.googleapis.com/v1/projects/${project}/locations/${zone}/clusters/${cluster}`
    : '';
  const clusterUrl = cloudClusterUrl || ofMetadata;
  const platform = Object.fromEntries(
    Object.entries({
      gcp_project: project,
      gcp_project_number: number,
      gcp_gke_cluster_name: cluster,
      gcp_location: zone,
      gcp_gke_cluster_url: clusterUrl,
    }).filter(([, value]) => value !== ''),
  );
  return {
    platform: Object.keys(platform).length === 0 ? undefined : platform,
    clusterUrl: clusterUrl === '' ? undefined : clusterUrl,
  };
}

/** A part may be empty: a virtual machine outside a cluster has only a project. */
function parts(text: string): readonly string[] {
  if (text === '') return [];
  const found = text.split('|').map((part) => part.trim());
  const [project = '', number = ''] = found;
  if (found.length !== 4) throw invalid('CLOUD_METADATA', text, `not four parts: ${SHAPE}`);
  if (project === '') throw invalid('CLOUD_METADATA', text, `no project_id: ${SHAPE}`);
  if (!/^\d*$/.test(number)) throw invalid('CLOUD_METADATA', text, `project_number is not a number: ${SHAPE}`);
  if (found.some((part) => !/^[A-Za-z0-9._:-]*$/.test(part)))
    throw invalid('CLOUD_METADATA', text, `a part is not a name: ${SHAPE}`);
  return found;
}

function invalid(variable: string, value: string, what: string): CtlError {
  const shown = JSON.stringify(value.slice(0, 200));
  return new CtlError('invalid_argument', `invalid value ${shown} of variable ${variable}: ${what}`);
}
