import { type ConfigSource, formatRemark, type Remark } from "../config/remark.ts";

/** The router cannot start as it is configured; the message says what to change, and where if `source` is known. */
export class RouterStartError extends Error {
  override readonly name = "RouterStartError";
  readonly code = "CANNOT_START";

  constructor(problems: readonly Remark[], source?: ConfigSource, options?: ErrorOptions) {
    super(problems.map((problem) => formatRemark(problem, source)).join("\n"), options);
  }
}
