import { join } from "node:path";
import { type ApiClient, createClient } from "@sallyport/api";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { Program } from "../program.ts";
import { PeerCli } from "./peer-cli.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const PASSWORD = "correct-horse-battery";

/** One of two controllers that get the same questions. */
export interface Side {
  readonly name: "peer" | "ours";
  readonly port: number;
  readonly password: string;
  /** Of the user `admin`. */
  readonly token: string;
  readonly management: ApiClient<"management">;
  /** OpenZiti's CLI, logged in as `admin`. */
  readonly cli: PeerCli;
  /** A folder of its own. */
  readonly folder: string;
}

export interface SideBySide {
  readonly theirs: Side;
  readonly ours: Side;
  stop(): Promise<void>;
}

/** Starts OpenZiti's controller and ours, without routers, in `folder` on free ports of this machine; resolves when both have let their administrator in. */
export async function startSideBySide(binary: string, folder: string): Promise<SideBySide> {
  const programs: Program[] = [];
  const clients: ApiClient<"management">[] = [];
  const start = (name: string, command: string, args: readonly string[], env: Record<string, string>): Program => {
    const program = new Program({ name, command, args, env, cwd: folder, logFile: join(folder, `${name}.log`) });
    programs.push(program);
    return program;
  };
  const stop = async (): Promise<void> => {
    for (const client of clients) client.close();
    for (const program of programs.toReversed()) await program.stop();
  };
  const login = async (name: Side["name"], port: number, program: Program, password: string): Promise<Side> => {
    const management = createClient("management", {
      baseUrl: `https://localhost:${port}`,
      tls: { rejectUnauthorized: false },
    });
    clients.push(management);
    let token = "";
    await program.ready("the first login", async () => {
      const { data } = await management.authenticate({
        query: { method: "password" },
        body: { username: "admin", password },
      });
      token = data.token;
      return true;
    });
    management.setToken(token);
    const own = join(folder, name);
    const cli = new PeerCli(binary, own);
    await cli.edge("login", `localhost:${port}`, "-u", "admin", "-p", password, "-y");
    return { name, port, password, token, management, cli, folder: own };
  };
  try {
    const [theirPort = 0, unused = 0, ourPort = 0] = await freePorts(3);
    const peerController = start(
      "peer-controller",
      binary,
      [
        ...["edge", "quickstart", "--home", join(folder, "qs"), "--no-router", "--ctrl-address", "localhost"],
        ...["--ctrl-port", String(theirPort), "--router-address", "localhost", "--router-port", String(unused)],
      ],
      { ZITI_HOME: folder },
    );
    const main = join(ROOT, "controller", "src", "main.ts");
    const env = { SALLYPORT_ADMIN_USERNAME: "admin", SALLYPORT_ADMIN_PASSWORD: PASSWORD };
    const dir = join(folder, "controller");
    const ports = ["--api-port", String(ourPort), "--ctrl-port", String(ourPort)];
    const init = start("init", process.execPath, [main, "init", "--dir", dir, "--host", "localhost", ...ports], env);
    const code = await init.exited;
    if (code !== 0) throw new Error(`setting up our controller ended with exit code ${code}\n${init.tail.join("\n")}`);
    const controller = start("controller", process.execPath, [main, "run", join(dir, "controller.yml")], {});
    const theirs = await login("peer", theirPort, peerController, "admin");
    const ours = await login("ours", ourPort, controller, PASSWORD);
    return { theirs, ours, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
