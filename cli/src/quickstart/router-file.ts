/** The file of a router that a quick start runs. */
import type { Places } from "./places.ts";
import { type RunOptions, runToEnd } from "./programs/run-to-end.ts";

export interface RouterPlace {
  readonly name: string;
  /** `tls:host:port` */
  readonly controller: string;
  /** Where others reach it: applications, and other routers on the same port. */
  readonly host: string;
  readonly port: number;
}

/** The text that `sallyport-router create-config` prints. @throws CommandError, or the signal's reason */
export async function routerFile(
  router: Places["programs"]["router"],
  { name, controller, host, port }: RouterPlace,
  setup: RunOptions,
): Promise<string> {
  const place = ["--host", host, "--port", String(port), "--link-port", String(port)];
  const args = ["create-config", name, "--controller", controller, ...place, "--tunneler-mode", "host"];
  return await runToEnd([...router, ...args], setup);
}
