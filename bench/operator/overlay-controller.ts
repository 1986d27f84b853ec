import { request } from "node:https";
import { join } from "node:path";
import { freePort } from "@sallyport/wire/testing/free-ports";

import { accepts, Program } from "../../e2e/network/program.ts";
import { PROGRAM_IMAGES } from "../../images/programs.ts";
import { readCaBundle } from "../../packages/sdk/src/enrollment/ca-bundle.ts";
import { processTree, treeCpuSeconds } from "../api/processes.ts";
import type { NamedController } from "./declared.ts";

const PASSWORD = "correct-horse-battery";

/** Our packed controller with its embedded PostgreSQL, for the operator to talk to. */
export interface OverlayController extends NamedController {
  /** CPU seconds so far, the database included. */
  cpuSeconds(): number;
  stop(): Promise<void>;
}

/** @param file the packed program */
export async function startController(file: string, folder: string): Promise<OverlayController> {
  const port = await freePort();
  const start = (name: string, ...args: string[]): Program =>
    new Program({
      name,
      command: process.execPath,
      args: [
        ...(PROGRAM_IMAGES.controller?.nodeFlags ?? []),
        ...(process.env.SALLYPORT_BENCH_CONTROLLER_OPTIONS?.split(" ") ?? []),
        file,
        ...args,
      ],
      env: { SALLYPORT_ADMIN_USERNAME: "admin", SALLYPORT_ADMIN_PASSWORD: PASSWORD },
      logFile: join(folder, `${name}.log`),
    });
  const data = join(folder, "controller");
  const ports = ["--api-port", String(port), "--ctrl-port", String(port)];
  const init = start("init", "init", "--dir", data, "--host", "localhost", ...ports);
  if ((await init.exited) !== 0) throw new Error(`init failed\n${init.tail.join("\n")}`);
  const controller = start("controller", "run", join(data, "controller.yml"));
  await controller.ready("its port", () => accepts(port));
  return {
    port,
    ca: await caBundle(port),
    username: "admin",
    password: PASSWORD,
    cpuSeconds: () => treeCpuSeconds(processTree(controller.pid)),
    async stop() {
      await controller.stop(30_000);
    },
  };
}

/** Whom the controller tells its clients to trust. */
async function caBundle(port: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const url = `https://localhost:${port}/.well-known/est/cacerts`;
  const asked = request(url, { rejectUnauthorized: false, agent: false });
  asked.on("error", reject);
  asked.on("response", (response) => {
    const chunks: Buffer[] = [];
    response.on("data", (chunk: Buffer) => chunks.push(chunk));
    response.on("end", () => resolve(Buffer.concat(chunks)));
  });
  asked.end();
  return readCaBundle(await promise).pem;
}
