import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { accepts, Program } from "../program.ts";
import type { PeerCli } from "./peer-cli.ts";

/** A service hosted and dialled by OpenZiti's tunnelers, its path forced over both routers of a network. */
export interface TunnelledService {
  readonly name: string;
  /** TCP port of this machine; connections come out at the target. */
  readonly port: number;
  readonly host: Program;
  readonly client: Program;
  stop(): Promise<void>;
}

export interface TunnelledServiceOptions {
  readonly cli: PeerCli;
  readonly binary: string;
  readonly folder: string;
  readonly name: string;
  /** Where `ziti tunnel host` connects to, on this machine. */
  readonly targetPort: number;
  /** Ask for end-to-end encryption; true when absent. */
  readonly isEncrypted?: boolean;
  /** Role attributes of the only routers that the client and the host may use; `r1` and `r2` when absent. */
  readonly clientRouter?: string;
  readonly hostRouter?: string;
  /** The tunnelers log in by OIDC, which they need with several controllers. */
  readonly isOidc?: boolean;
}

/** Creates identities, configs, service and policies with the CLI; each side may use only its own router. */
export async function declareService(o: TunnelledServiceOptions): Promise<{ hostFile: string; clientFile: string }> {
  const { cli, name } = o;
  const target = { protocol: "tcp", address: "127.0.0.1", port: o.targetPort };
  await cli.edge("create", "config", `${name}-host`, "host.v1", JSON.stringify(target));
  await cli.edge(
    "create",
    "service",
    name,
    "-c",
    `${name}-host`,
    "-a",
    name,
    "-e",
    o.isEncrypted === false ? "OFF" : "ON",
  );
  const files: string[] = [];
  for (const [side, router, kind] of [
    ["host", o.hostRouter ?? "r2", "Bind"],
    ["client", o.clientRouter ?? "r1", "Dial"],
  ] as const) {
    const identity = `${name}-${side}`;
    const token = join(o.folder, `${identity}.jwt`);
    const file = join(o.folder, `${identity}.json`);
    await cli.edge("create", "identity", identity, "-o", token, "-a", identity);
    await cli.edge("enroll", token, "-o", file);
    await cli.edge(
      "create",
      "edge-router-policy",
      identity,
      "--identity-roles",
      `#${identity}`,
      "--edge-router-roles",
      `#${router}`,
    );
    await cli.edge(
      "create",
      "service-policy",
      identity,
      kind,
      "--identity-roles",
      `#${identity}`,
      "--service-roles",
      `#${name}`,
    );
    files.push(file);
  }
  await cli.edge(
    "create",
    "service-edge-router-policy",
    name,
    "--service-roles",
    `#${name}`,
    "--edge-router-roles",
    "#all",
  );
  const [hostFile = "", clientFile = ""] = files;
  return { hostFile, clientFile };
}

/** Declares the service and starts both tunnelers; resolves when a connection is carried. */
export async function startTunnelledService(o: TunnelledServiceOptions): Promise<TunnelledService> {
  const { hostFile, clientFile } = await declareService(o);
  if (o.isOidc) for (const file of [hostFile, clientFile]) enableOidc(file);
  const port = await freePort();
  const start = (side: string, ...args: string[]): Program =>
    new Program({
      name: `${o.name}-${side}`,
      command: o.binary,
      args: ["tunnel", ...args],
      env: { ZITI_HOME: o.folder },
      logFile: join(o.folder, `${o.name}-${side}.log`),
    });
  const host = start("host", "host", "-i", hostFile);
  const client = start("client", "proxy", "-i", clientFile, `${o.name}:${port}`);
  const stop = async (): Promise<void> => {
    await Promise.all([client.stop(), host.stop()]);
  };
  try {
    await client.ready("its proxy port", () => accepts(port));
    return { name: o.name, port, host, client, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Sets what OpenZiti's SDK asks for before it logs in by OIDC. */
function enableOidc(file: string): void {
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), enableHa: true }));
}
