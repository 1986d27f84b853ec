import { join } from "node:path";
import { startNetwork } from "../network.ts";
import { PeerCli } from "./peer-cli.ts";
import { startPeerController } from "./peer-network.ts";

/** A controller without routers, and OpenZiti's CLI logged in to it as its administrator. */
export interface BareController {
  readonly cli: PeerCli;
  /** API and control channel. */
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts our controller or OpenZiti's in `folder` on a free port of this machine; `binary` is OpenZiti's program. */
export async function startBareController(
  whose: "ours" | "OpenZiti's",
  binary: string,
  folder: string,
): Promise<BareController> {
  if (whose === "OpenZiti's") {
    const { cli, port, controller } = await startPeerController(binary, join(folder, "controller"));
    return { cli, port, stop: async () => void (await controller.stop()) };
  }
  const network = await startNetwork(join(folder, "network"));
  // Its own routers would be further ways.
  for (const name of ["r1", "r2"]) await network.stopProgram(name);
  const cli = new PeerCli(binary, folder);
  await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
  return { cli, port: network.port, stop: () => network.stop() };
}
