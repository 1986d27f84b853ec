/** What every part of a join works with. */
import type { CommandContext } from "../../context.ts";
import type { SupervisedProgram } from "../supervised-program.ts";

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

export interface Joining {
  readonly folder: string;
  readonly options: JoinOptions;
  readonly context: CommandContext;
  readonly say: (line: string) => void;
  /** Programs that are stopped in the end. */
  readonly watch: (program: SupervisedProgram) => void;
}
