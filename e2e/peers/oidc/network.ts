import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import { freePort, freePorts } from "@sallyport/wire/testing/free-ports";
import { openTcp, startEcho, type TcpServer } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../../network/openziti/peer-network.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

/** Whose routers carry the circuits of a pair: one of OpenZiti, or both of Sallyport. */
export const ROUTERS = {
  "OpenZiti's router": { clientRouters: ["theirs"], hostRouters: ["theirs"] },
  "our routers": { clientRouters: ["r1"], hostRouters: ["r2"] },
} as const;

/** Whose `ziti` is the tunneler and the router `theirs`. Only that of 1.6 has to be told to log in by OIDC. */
const GENERATIONS = {
  "1.6": { path: peer.path, loginFlags: ["--ha"] },
  "2.x": { path: peer.generation2.path, loginFlags: [] },
} as const;

type Generation = keyof typeof GENERATIONS;
type Ziti = (typeof GENERATIONS)[Generation];

/** Programs of OpenZiti that host and dial. `ziti tunnel` hosts what `target` echoes, an application echoes by itself. */
const PROGRAMS = {
  "ziti tunnel": {
    host: (file: string, _service: string, { path, loginFlags }: Ziti) => [
      ...[path, "tunnel", "host", ...loginFlags, "-i", file],
    ],
    client: (file: string, service: string, port: number, { path, loginFlags }: Ziti) => [
      ...[path, "tunnel", "proxy", ...loginFlags, "-i", file, `${service}:${port}`],
    ],
  },
  "an application": {
    host: (file: string, service: string) => [peer.postureClient, "flow-host", file, service, "0"],
    client: (file: string, service: string, port: number) => [
      ...[peer.postureClient, "flow-dial", file, service, String(port), "0"],
    ],
  },
} as const;

export type Whose = keyof typeof ROUTERS;
export type Kind = keyof typeof PROGRAMS;

export interface OidcNetworkOptions {
  /** Life of access tokens, as in the controller's file. */
  readonly accessToken?: string;
  /** Type of the keys; EC when absent. */
  readonly keyType?: "rsa" | undefined;
  /** Of OpenZiti's `ziti`; 1.6 when absent. */
  readonly generation?: Generation;
}

/** What the controller reports of API sessions. */
interface SessionEvent {
  readonly namespace: string;
  readonly event_type: string;
  readonly type: string;
  readonly identity_id: string;
}

/** Our controller with logins by OIDC, our routers `r1` and `r2`, and OpenZiti's `theirs`. */
export class OidcNetwork {
  readonly folder: string;
  readonly network: Network;
  readonly #target: TcpServer;
  readonly #ziti: Ziti;
  readonly #programs: Program[] = [];
  #theirs: Program | undefined;

  private constructor(folder: string, network: Network, target: TcpServer, generation: Generation) {
    this.folder = folder;
    this.network = network;
    this.#target = target;
    this.#ziti = GENERATIONS[generation];
  }

  static async start(name: string, o: OidcNetworkOptions = {}): Promise<OidcNetwork> {
    const { accessToken = "30m", keyType, generation = "1.6" } = o;
    const folder = makeScratch(name);
    const network = await startNetwork(join(folder, "network"), {
      ...(keyType !== undefined && { controllerArgs: ["--key-type", keyType] }),
      login: "oidc",
      controllerSettings: (text) => text.replace(/^( {4})# (accessToken:) \w+$/m, `$1$2 ${accessToken}`) + JOURNAL,
    });
    const made = new OidcNetwork(folder, network, await startEcho(), generation);
    try {
      await made.#startTheirs();
      return made;
    } catch (error) {
      await made.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    for (const program of this.#programs.splice(0).toReversed()) await program.stop();
    await this.network.stop();
    await this.#target.close();
    removeScratch(this.folder);
  }

  /** A program that is stopped with the network. */
  run(name: string, [command = "", ...args]: readonly string[]): Program {
    const options = { name, command, args, env: { ZITI_HOME: this.folder } };
    const program = new Program({ ...options, logFile: join(this.folder, `${name}.log`) });
    this.#programs.push(program);
    return program;
  }

  /** Host and client of a service of their own, logged in, with a circuit that was carried. */
  async startPair(kind: Kind, whose: Whose): Promise<Pair> {
    const name = `${kind} over ${whose}`.replaceAll(/[^a-z]+/gi, "-").toLowerCase();
    const { management } = this.network;
    const declared = await declareService(this.network, { name, ...ROUTERS[whose] });
    const { data: types } = await management.listConfigTypes({ query: { filter: 'name = "host.v1"' } });
    const target = { protocol: "tcp", address: "127.0.0.1", port: this.#target.port };
    const config = await management.createConfig({ body: { name, configTypeId: types[0]?.id ?? "", data: target } });
    await management.patchService({ params: { id: declared.id }, body: { configs: [config.data.id] } });
    const port = await freePort();
    this.run(`${name}-host`, PROGRAMS[kind].host(declared.hostFile, name, this.#ziti));
    const client = this.run(`${name}-client`, PROGRAMS[kind].client(declared.clientFile, name, port, this.#ziti));
    const pair = { kind, whose, port, client, host: await this.#idOf(`${name}-host`) };
    const made = { ...pair, identityId: await this.#idOf(`${name}-client`) };
    await client.ready("a first echo", () => carries(made));
    return made;
  }

  /** How often the tokens of an identity were refreshed so far. */
  refreshes(identityId: string): number {
    const file = join(this.network.folder, "controller", "sessions.jsonl");
    const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
    const events = lines.map((line) => JSON.parse(line) as SessionEvent);
    return events.filter((event) => event.event_type === "refreshed" && event.identity_id === identityId).length;
  }

  async restartTheirs(): Promise<void> {
    await this.#theirs?.stop();
    this.#theirs = undefined;
    await this.#runTheirs();
  }

  async #idOf(name: string): Promise<string> {
    const { data } = await this.network.management.listIdentities({ query: { filter: `name = "${name}"` } });
    return data[0]?.id ?? "";
  }

  async #startTheirs(): Promise<void> {
    const { management, port: controllerPort } = this.network;
    const { folder } = this;
    const [edgePort = 0, linkPort = 0] = await freePorts(2);
    const { data } = await management.createEdgeRouter({
      body: { name: "theirs", roleAttributes: ["theirs"], isTunnelerEnabled: false },
    });
    const detail = await management.detailEdgeRouter({ params: { id: data.id } });
    const token = join(folder, "theirs.jwt");
    writeFileSync(token, detail.data.enrollmentJwt ?? "");
    writeFileSync(this.#theirFile, peerRouterFile({ folder, name: "theirs", controllerPort, edgePort, linkPort }));
    await new PeerCli(this.#ziti.path, folder).run("router", "enroll", this.#theirFile, "--jwt", token);
    await this.#runTheirs();
  }

  get #theirFile(): string {
    return join(this.folder, "theirs.yml");
  }

  async #runTheirs(): Promise<void> {
    const router = this.run("theirs", [this.#ziti.path, "router", "run", this.#theirFile]);
    this.#theirs = router;
    await router.ready("being online", async () => {
      const { data } = await this.network.management.listEdgeRouters({ query: { filter: 'name = "theirs"' } });
      return data[0]?.isOnline === true && Object.keys(data[0].supportedProtocols ?? {}).length > 0;
    });
  }
}

const JOURNAL = `
events:
  sessions:
    subscriptions: [{ type: apiSession }]
    handler: { type: file, format: json, path: sessions.jsonl }
`;

/** Host and client of a service. */
export interface Pair {
  readonly kind: Kind;
  readonly whose: Whose;
  /** TCP port of this machine: what is sent to it comes back over a circuit. */
  readonly port: number;
  readonly client: Program;
  /** Identities of the host and of the client. */
  readonly host: string;
  readonly identityId: string;
}

/** Whether a new circuit carries something; a refusal, a reset and an early end are all a no. */
export async function carries({ port }: Pick<Pair, "port">): Promise<boolean> {
  const stream = await Stream.open(port);
  const isCarried = await Promise.race([stream.more(1).then(() => true), stream.ended.then(() => false)]);
  stream.close();
  return isCarried;
}

const BETWEEN_BEATS_MS = 50;

/** A circuit on which something comes and goes all the time. */
export class Stream {
  /** How often what was sent has come back. */
  beats = 0;
  /** Why there is no more. */
  readonly ended: Promise<string>;
  readonly close: () => void;

  private constructor(socket: Awaited<ReturnType<typeof openTcp>>) {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    this.close = () => void socket.destroy();
    const beat = (): void => void socket.write(Buffer.of(this.beats & 0xff));
    socket.on("data", (data: Buffer) => {
      if (!data.equals(Buffer.of(this.beats & 0xff)))
        resolve(`${data.toString("hex")} came back for beat ${this.beats}`);
      this.beats += 1;
      void pause(BETWEEN_BEATS_MS).then(beat);
    });
    socket.once("end", () => resolve("the other end ended it"));
    socket.once("close", () => resolve("it was closed"));
    void promise.then(this.close);
    beat();
  }

  static async open(port: number): Promise<Stream> {
    return new Stream(await openTcp(port));
  }

  /** Resolves when so many more came back; rejects when it ended. */
  async more(count: number): Promise<void> {
    const until = this.beats + count;
    const isOver = this.ended.then((why) => {
      throw new Error(`the stream ended after ${this.beats} beats: ${why}`);
    });
    isOver.catch(() => {});
    await Promise.race([isOver, eventually(`${count} more beats`, () => this.beats >= until)]);
  }
}
