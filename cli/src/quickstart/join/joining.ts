/** What every part of a join works with. */
import type { FolderRun } from "../programs/folder-run.ts";

export interface JoinOptions {
  readonly folder: string;
  /** Text or file; undefined: as at an earlier run. */
  readonly token: string | undefined;
  /** Whether connections are intercepted; undefined: where this machine can. */
  readonly isIntercepting: boolean | undefined;
  /** Where a router is reached. */
  readonly host: string | undefined;
  readonly routerPort: number | undefined;
  /** The file by which this program was started. */
  readonly start: string;
}

export interface Joining extends FolderRun {
  readonly folder: string;
  readonly options: JoinOptions;
}
