/** What a caller asks of a preview, and the answer. */
import type { XdsType } from '../core/xds-types.ts';
import type { FieldChange } from '../push/index.ts';
import type { UnreachedRoute } from '../resources/index.ts';

/** The documents of a change, as files. */
export interface CandidateFile {
  /** As messages name it. */
  readonly file: string;
  readonly text: string;
}

export interface PreviewRequest {
  readonly files: readonly CandidateFile[];
  /** The files are the whole configuration directory: documents that are not in them are deleted. */
  readonly replaceDirectory: boolean;
}

/** Who asks. */
export interface PreviewCaller {
  /** Callers share the time of previews. */
  readonly id: string;
  /** Whether documents and proxies of a namespace ('': of none) may be seen. */
  sees(namespace: string): boolean;
}

/** What the change would do with a document. */
export interface DocumentOutcome {
  readonly effect: 'added' | 'changed' | 'unchanged' | 'removed' | 'refused' | 'ignored';
  /** `Kind/namespace/name`, where it could be read. */
  readonly key?: string;
  /** `file:line` */
  readonly at: string;
  readonly message?: string;
  /** Fields that are left out or not acted on. */
  readonly warnings?: readonly string[];
}

export interface WorkloadOutcome {
  readonly namespace: string;
  readonly workload: string;
  /** Number of its proxies that are sent something. */
  readonly proxies: number;
  /** Bytes of the messages that are sent to them. */
  readonly bytes: number;
}

export interface ResourceOutcome {
  readonly type: XdsType;
  readonly name: string;
  readonly effect: 'added' | 'changed' | 'removed';
  /** Number of proxies that are sent it. */
  readonly proxies: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly fields: readonly FieldChange[];
  /** Further fields that differ and are not listed; absent: all are listed. */
  readonly moreFields?: number;
}

/** Something that the change would open or close. */
export interface PolicyOutcome {
  readonly effect: 'opens' | 'closes';
  readonly message: string;
  /** Of the proxies, sorted. */
  readonly namespaces: readonly string[];
  readonly proxies: number;
}

export interface PreviewAnswer {
  /** Version of the snapshot that the change was compared with. */
  readonly version: number;
  readonly documents: readonly DocumentOutcome[];
  readonly proxies: {
    /** Those that the caller may see. */
    readonly connected: number;
    readonly touched: number;
    readonly workloads: readonly WorkloadOutcome[];
  };
  readonly resources: {
    readonly added: number;
    readonly changed: number;
    readonly removed: number;
    /** To all proxies, as messages of Delta xDS. */
    readonly bytesPushed: number;
    /** Those that concern the most proxies first. */
    readonly list: readonly ResourceOutcome[];
  };
  readonly unreachedRoutes: readonly UnreachedRoute[];
  readonly policies: readonly PolicyOutcome[];
  /** What could not be generated with the change, one line each. */
  readonly problems: readonly string[];
  /** What the answer leaves out, one line each. */
  readonly notes: readonly string[];
}
