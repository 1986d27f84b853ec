import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ApiClient, createClient } from "@sallyport/api";
import { enroll } from "@sallyport/sdk";
import { x509 } from "@sallyport/wire";
import { freePort, freePorts } from "@sallyport/wire/testing/free-ports";
import { chosenLogin, type LoginKind, withLogin } from "./login/logins.ts";
import { accepts, Program } from "./program.ts";

const ROOT = join(import.meta.dirname, "..", "..");
export const ADMIN_PASSWORD = "correct-horse-battery";

/** A whole Sallyport network: a controller with its embedded database, two linked routers `r1` and `r2`, and an administrator's client. */
export interface Network {
  readonly folder: string;
  /** The controller's file. */
  readonly controllerFile: string;
  /** Port of the controller: API and control channel. */
  readonly port: number;
  readonly adminPassword: string;
  readonly management: ApiClient<"management">;
  readonly controller: Program;
  /** `r1` and `r2`; each has its name as role attribute. */
  readonly routers: readonly [Program, Program];
  /** Stops the controller (gracefully unless a signal is given) and starts it again on the same port; resolves when it answers. */
  restartController(signal?: NodeJS.Signals): Promise<void>;
  /** Changes in the controller's file how programs log in, and restarts it. */
  changeLogin(login: LoginKind): Promise<void>;
  /** The same for a router. */
  restartRouter(name: string, signal?: NodeJS.Signals): Promise<void>;
  /** A program that runs, by its name. */
  program(name: string): Program;
  /** Ends `controller` or a router, with the signal if one is given, else gracefully; resolves with its exit code. */
  stopProgram(name: string, signal?: NodeJS.Signals): Promise<number | null>;
  /** Starts the controller again; resolves when it answers. */
  startController(): Promise<Program>;
  /** Starts a router that is enrolled; resolves when it is online. */
  startRouter(name: string): Promise<Program>;
  /** Runs a command line of a program to its end. */
  runToEnd(program: "controller" | "router", ...args: string[]): Promise<Ended>;
  /** Makes and enrolls a further router, with its name as role attribute; resolves with its configuration file. It is not started. */
  enrollRouter(name: string): Promise<string>;
  stop(): Promise<void>;
}

/** How a command line ended, and what it printed. */
export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

export interface NetworkOptions {
  /** Of the controller; a free one when absent. */
  readonly port?: number;
  /** Told about each step that was reached. */
  readonly onStep?: (what: string) => void;
  /** More lines for each router's file, at its top level. */
  readonly routerLines?: string;
  /** Called when the controller answers, before any router is made. */
  readonly onController?: (port: number) => Promise<void>;
  /** Makes each router's file from what it would be. */
  readonly routerSettings?: (name: string, text: string) => string;
  readonly controllerArgs?: readonly string[];
  /** How programs log in, whatever `SALLYPORT_LOGIN` says. */
  readonly login?: LoginKind;
  /** Makes the controller's file from what `init` wrote. */
  readonly controllerSettings?: (text: string) => string;
  /** How much the programs log; `info` when absent. */
  readonly logLevel?: "debug" | "info";
  /** The file that each program is started from; its sources when absent. */
  readonly programFile?: (program: "controller" | "router") => string;
}

/** Starts it in `folder` on free ports of this machine; resolves when both routers are online and linked. */
export async function startNetwork(folder: string, options: NetworkOptions = {}): Promise<Network> {
  mkdirSync(folder, { recursive: true });
  const step = options.onStep ?? (() => {});
  const logLevel = options.logLevel ?? "info";
  const [anyPort = 0, ...routerPorts] = await freePorts(3);
  const { port = anyPort } = options;
  const programs = new Map<string, Program>();
  const start = (name: string, program: "controller" | "router", ...args: string[]): Program => {
    const started = new Program({
      name,
      command: process.execPath,
      args: [options.programFile?.(program) ?? join(ROOT, program, "src", "main.ts"), ...args],
      env: {
        SALLYPORT_ADMIN_USERNAME: "admin",
        SALLYPORT_ADMIN_PASSWORD: ADMIN_PASSWORD,
        SALLYPORT_LOG_LEVEL: logLevel,
      },
      logFile: join(folder, `${name}.log`),
    });
    programs.set(name, started);
    return started;
  };
  const finish = async (name: string, program: Program): Promise<void> => {
    const code = await program.exited;
    programs.delete(name);
    if (code !== 0) throw new Error(`${name} ended with exit code ${code}\n${program.tail.join("\n")}`);
  };
  let management: ApiClient<"management"> | undefined;
  const stop = async (): Promise<void> => {
    management?.close();
    for (const name of [...programs.keys()].toReversed()) await programs.get(name)?.stop();
  };
  try {
    // As root, the database runs under another user, who must be able to pass; otherwise its folder would lie elsewhere.
    chmodSync(folder, 0o711);
    const controllerFolder = join(folder, "controller");
    const controllerFile = join(controllerFolder, "controller.yml");
    await finish(
      "init",
      start(
        "init",
        "controller",
        ...[
          "init",
          "--dir",
          controllerFolder,
          "--host",
          "localhost",
          "--api-port",
          String(port),
          "--ctrl-port",
          String(port),
        ],
        ...(options.controllerArgs ?? []),
      ),
    );
    const made = readFileSync(controllerFile, "utf8");
    const login = options.login ?? chosenLogin();
    const settings = login === undefined ? made : withLogin(made, login);
    const changed = options.controllerSettings?.(settings) ?? settings;
    writeFileSync(controllerFile, changed.replace(/^( {2}level:) info$/m, `$1 ${logLevel}`));
    step("a controller was set up: keys, certificates, database, administrator");
    const runController = async (): Promise<Program> => {
      const controller = start("controller", "controller", "run", controllerFile);
      await controller.ready("its port", () => accepts(port));
      return controller;
    };
    await runController();
    const client = await administrator(port, ADMIN_PASSWORD);
    management = client;
    step(`the controller answers at https://localhost:${port}`);
    await options.onController?.(port);

    const runRouter = async (name: string): Promise<Program> => {
      const router = start(name, "router", "run", join(folder, `${name}.yml`));
      await router.ready("being online", async () => await isOnline(client, name));
      return router;
    };
    const enrollRouter = async (name: string, routerPort: number): Promise<string> => {
      const { data } = await client.createEdgeRouter({
        body: { name, roleAttributes: [name], isTunnelerEnabled: false },
      });
      const detail = await client.detailEdgeRouter({ params: { id: data.id } });
      const token = join(folder, `${name}.jwt`);
      writeFileSync(token, detail.data.enrollmentJwt ?? "", { mode: 0o600 });
      const file = join(folder, `${name}.yml`);
      const settings =
        routerFile({ folder, name, controllerPort: port, port: routerPort }) + (options.routerLines ?? "");
      writeFileSync(file, options.routerSettings?.(name, settings) ?? settings);
      await finish("enroll", start("enroll", "router", "enroll", file, "--jwt", token));
      return file;
    };
    for (const [index, name] of ["r1", "r2"].entries()) {
      await enrollRouter(name, routerPorts[index] ?? 0);
      await runRouter(name);
      step(`router ${name} is enrolled and online`);
    }
    const [linkFrom, linkTo] = [programs.get("r1"), programs.get("r2")];
    await Promise.any([linkFrom?.line(/link.*(established|up)/i), linkTo?.line(/link.*(established|up)/i)]);
    step("the routers are linked");

    const program = (name: string): Program => {
      const found = programs.get(name);
      if (found === undefined) throw new Error(`${name} does not run`);
      return found;
    };
    const stopProgram = async (name: string, signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> => {
      const code = await program(name).end(signal);
      programs.delete(name);
      return code;
    };
    const restartController = async (signal?: NodeJS.Signals): Promise<void> => {
      await stopProgram("controller", signal);
      await runController();
    };
    return {
      folder,
      controllerFile,
      port,
      adminPassword: ADMIN_PASSWORD,
      management: client,
      get controller() {
        return program("controller");
      },
      get routers(): readonly [Program, Program] {
        return [program("r1"), program("r2")];
      },
      program,
      stopProgram,
      startController: runController,
      startRouter: runRouter,
      runToEnd: async (program, ...args) => {
        const started = start("command", program, ...args);
        const code = await started.exited;
        programs.delete("command");
        return { code, output: started.tail.join("\n") };
      },
      restartController,
      changeLogin: async (login) => {
        writeFileSync(controllerFile, withLogin(readFileSync(controllerFile, "utf8"), login));
        await restartController();
      },
      restartRouter: async (name, signal) => {
        await stopProgram(name, signal);
        await runRouter(name);
      },
      enrollRouter: async (name) => await enrollRouter(name, await freePort()),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A Management API client with an administrator's session. The network is on this machine: its own CA bundle is taken on first use. */
export async function administrator(port: number, password: string): Promise<ApiClient<"management">> {
  const baseUrl = `https://localhost:${port}`;
  const ca = await authorities(port);
  const client = createClient("management", { baseUrl, ca, tls: { allowPartialTrustChain: true } });
  const session = await client.authenticate({ query: { method: "password" }, body: { username: "admin", password } });
  client.setToken(session.data.token);
  return client;
}

/** A Fabric API client with an administrator's session. */
export async function fabricAdministrator(port: number, password: string): Promise<ApiClient<"fabric">> {
  const management = await administrator(port, password);
  const { data } = await management.authenticate({
    query: { method: "password" },
    body: { username: "admin", password },
  });
  management.close();
  return createClient("fabric", {
    baseUrl: `https://localhost:${port}`,
    ca: await authorities(port),
    token: data.token,
    tls: { allowPartialTrustChain: true },
  });
}

/** The CA bundle that the controller at this port hands out, PEM. */
export async function authorities(port: number): Promise<string> {
  const anonymous = createClient("client", {
    baseUrl: `https://localhost:${port}`,
    tls: { rejectUnauthorized: false },
  });
  const { data } = await anonymous.listWellKnownCas();
  anonymous.close();
  const bundle = new x509.X509Certificates(Buffer.from(data.toString("latin1"), "base64"));
  return bundle.map((certificate) => certificate.toString("pem")).join("\n");
}

async function isOnline(client: ApiClient<"management">, name: string): Promise<boolean> {
  const { data } = await client.listEdgeRouters({ query: { filter: `name = "${name}"` } });
  return data[0]?.isOnline === true && Object.keys(data[0].supportedProtocols ?? {}).length > 0;
}

/** A router's file: edge and link listener share one port on this machine's loopback. */
export function routerFile(o: { folder: string; name: string; controllerPort: number; port: number }): string {
  const file = (kind: string): string => JSON.stringify(join(o.folder, `${o.name}.${kind}`));
  return `v: 3
identity:
  cert: ${file("cert")}
  server_cert: ${file("server.cert")}
  key: ${file("key")}
  ca: ${file("ca")}
ctrl:
  endpoint: tls:localhost:${o.controllerPort}
csr:
  sans:
    dns: ["localhost"]
    ip: ["127.0.0.1"]
edge: {}
link:
  dialers:
    - binding: transport
  listeners:
    - binding: transport
      bind: tls:127.0.0.1:${o.port}
      advertise: localhost:${o.port}
listeners:
  - binding: edge
    bind: tls:127.0.0.1:${o.port}
    advertise: localhost:${o.port}
dialers:
  - binding: transport
`;
}

export interface DeclaredService {
  readonly id: string;
  /** Identity files of an identity that may host the service through `r2` only, and of one that may dial it through `r1` only. */
  readonly hostFile: string;
  readonly clientFile: string;
}

/** Makes a service, one identity for each side, enrolled, and policies that force the path over both routers. */
export async function declareService(
  network: Pick<Network, "management" | "folder">,
  service: {
    readonly name: string;
    readonly isEncrypted?: boolean;
    /** Routers each side may use; `r2` and `r1` when absent. */
    readonly hostRouters?: readonly string[];
    readonly clientRouters?: readonly string[];
  },
): Promise<DeclaredService> {
  const { management } = network;
  const { name } = service;
  const { data } = await management.createService({
    body: { name, roleAttributes: [name], encryptionRequired: service.isEncrypted ?? true },
  });
  const files: string[] = [];
  for (const [side, routers, type] of [
    ["host", service.hostRouters ?? ["r2"], "Bind"],
    ["client", service.clientRouters ?? ["r1"], "Dial"],
  ] as const) {
    const identity = `${name}-${side}`;
    const identityRoles = [`#${identity}`];
    const semantic = "AnyOf";
    const created = await management.createIdentity({
      body: { name: identity, type: "Device", isAdmin: false, roleAttributes: [identity], enrollment: { ott: true } },
    });
    const detail = await management.detailIdentity({ params: { id: created.data.id } });
    const enrolled = await enroll(detail.data.enrollment.ott?.jwt ?? "");
    const file = join(network.folder, `${identity}.json`);
    writeFileSync(file, JSON.stringify(enrolled), { mode: 0o600 });
    files.push(file);
    await management.createEdgeRouterPolicy({
      body: { name: identity, semantic, identityRoles, edgeRouterRoles: routers.map((router) => `#${router}`) },
    });
    await management.createServicePolicy({
      body: { name: identity, type, semantic, identityRoles, serviceRoles: [`#${name}`] },
    });
  }
  await management.createServiceEdgeRouterPolicy({
    body: { name, semantic: "AnyOf", serviceRoles: [`#${name}`], edgeRouterRoles: ["#all"] },
  });
  const [hostFile = "", clientFile = ""] = files;
  return { id: data.id, hostFile, clientFile };
}
