/** Debug pages for callers of xDS: the same pages, for the same callers, as on the HTTP addresses. */
import type { BuildInfo } from '../../core/build-info.ts';
import { CtlError } from '../../core/errors.ts';
import { answerOverXds, type PageMaker } from '../../debug/index.ts';
import type { DebugPages } from '../../xds/index.ts';
import { viewerOfIdentity } from './debug-access.ts';
import type { ProgramStatus } from './program-status.ts';

export interface XdsDebugOptions {
  readonly status: Pick<ProgramStatus, 'shown'>;
  /** That of the HTTP addresses, so that pages are built one at a time. */
  readonly maker: PageMaker;
  readonly replica: string;
  readonly build: BuildInfo;
}

export function xdsDebugPages({ status, maker, replica, build }: XdsDebugOptions): DebugPages {
  const { version, revision, nodeVersion, status: buildStatus, tag } = build;
  // Names of Istio's command line; the runtime's version has that of Go there.
  const Info = { version, revision, golang_version: nodeVersion, status: buildStatus, tag };
  return {
    identifier: JSON.stringify({ Component: 'ctl-discovery', ID: replica, Info }),
    async answer(question) {
      const [source, home] = [status.shown.debug(), status.shown.home()];
      if (source === undefined || home === undefined) {
        throw new CtlError('unavailable', 'configuration is being read');
      }
      const viewer = viewerOfIdentity(question.identity, home);
      return answerOverXds(question, { source, viewer, maker });
    },
  };
}
