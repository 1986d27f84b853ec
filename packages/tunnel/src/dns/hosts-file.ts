import { accessSync, appendFileSync, constants, readFileSync } from "node:fs";
import { InterceptError } from "../interceptor.ts";

const MARK = "# NetFoundry";

/** Names as lines of a file in the form of /etc/hosts; lines are added, and never removed. */
export class HostsFile {
  readonly #path: string;

  /** @throws InterceptError when the file cannot be written */
  constructor(path: string) {
    try {
      accessSync(path, constants.R_OK | constants.W_OK);
    } catch (error) {
      const message = `the hosts file ${path} cannot be read and written: ${(error as Error).message}`;
      throw new InterceptError("BAD_RESOLVER", message, { cause: error });
    }
    this.#path = path;
  }

  /** Adds the line unless it is there: after a restart names get the same addresses in the same order. */
  add(name: string, address: string): void {
    const line = `${address}\t${name}\t${MARK}`;
    const text = readFileSync(this.#path, "utf8");
    if (text.split("\n").includes(line)) return;
    appendFileSync(this.#path, `${text === "" || text.endsWith("\n") ? "" : "\n"}${line}\n`);
  }
}
