import { readFileSync } from "node:fs";
import { pause } from "@sallyport/async";
import { Context } from "@sallyport/sdk";
import { TestAuthority } from "@sallyport/wire/testing";
import { expect } from "vitest";
import { exchange } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import { hostEcho } from "../../network/hosted-echo.ts";
import { credentialsOf } from "../../network/login/identity-file.ts";
import { declareService, type Network, startNetwork } from "../../network/network.ts";
import type { Program } from "../../network/program.ts";
import {
  type ConnectionOrigin,
  type RawAnswer,
  RawPeer,
  type RawPeerOptions,
  rawRequest,
} from "../../network/raw-peer.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { requestText } from "./requests.ts";

export const MIB = 1024 * 1024;

interface Certified {
  readonly cert: string;
  readonly key: string;
}

/** A port that takes connections of every client. */
export interface Target {
  readonly name: string;
  readonly alpn?: string;
  port(site: Site): number;
  program(site: Site): Program;
}

export const CTRL: Target = {
  name: "the control channel",
  alpn: "ziti-ctrl",
  port: (site) => site.network.port,
  program: (site) => site.network.controller,
};
const ROUTER: Omit<Target, "name"> = {
  port: (site) => site.routerPort,
  program: (site) => site.network.routers[0],
};
export const LINK: Target = { ...ROUTER, name: "the link listener", alpn: "ziti-link" };
export const EDGE: Target = { ...ROUTER, name: "the edge listener", alpn: "ziti-edge" };
/** Of the other router: what unauthenticated clients make one listener log in a minute is bounded. */
const EDGE_WITHOUT_ALPN: Target = {
  name: "the edge listener, no ALPN",
  port: (site) => site.linkedRouterPort,
  program: (site) => site.network.routers[1],
};
export const EVERYWHERE: readonly Target[] = [CTRL, LINK, EDGE, EDGE_WITHOUT_ALPN];

/** Memory that a program has now. */
export const residentBytes = (program: Program): number =>
  Number(readFileSync(`/proc/${program.pid}/statm`, "utf8").split(" ")[1]) * 4096;

/** A network that carries an echo, and those who mean it no good. */
export class Site {
  readonly folder = makeScratch("bad-input");
  network!: Network;
  /** Of an authority that no program trusts. */
  untrusted!: Certified;
  /** Of an identity of the network. */
  known!: Certified;
  /** `r1`, whose ports are tried, and the router that it is linked to. */
  routerId!: string;
  linkedRouterId!: string;
  routerPort!: number;
  linkedRouterPort!: number;
  /** Everything that no log may hold. */
  readonly secrets = new Map<string, string>();
  #host: Context | undefined;
  #client: Context | undefined;

  async start(): Promise<void> {
    this.network = await startNetwork(this.folder, { logLevel: "debug" });
    const declared = await declareService(this.network, { name: "echo" });
    this.#host = await Context.load(declared.hostFile);
    await hostEcho(this.#host, "echo");
    this.#client = await Context.load(declared.clientFile);
    const authority = await TestAuthority.create("Untrusted");
    const issued = await authority.issue({ commonName: "untrusted" });
    this.untrusted = { cert: issued.certPem, key: this.keep("the untrusted key", issued.keyPem) };
    for (const [side, file] of Object.entries({ host: declared.hostFile, client: declared.clientFile })) {
      const { cert, key } = credentialsOf(file);
      this.known = { cert, key: this.keep(`the key of the ${side}`, key) };
    }
    const { data } = await this.network.management.listEdgeRouters({ query: { filter: "true sort by name" } });
    [this.routerId, this.linkedRouterId] = [data[0]!.id, data[1]!.id];
    [this.routerPort, this.linkedRouterPort] = [data[0]!, data[1]!].map(({ supportedProtocols }) =>
      Number(/:(\d+)$/.exec(supportedProtocols!.tls!)?.[1]),
    ) as [number, number];
  }

  async stop(): Promise<void> {
    await this.#client?.close();
    await this.#host?.close();
    await this.network?.stop();
    removeScratch(this.folder);
  }

  /** Sends bytes through the network and expects them back. */
  async exchange(): Promise<void> {
    await exchange(await this.#client!.dial("echo", { allowHalfOpen: true }), 1, 64 * 1024);
  }

  /** Has the logs searched for a secret at the end; gives it back. */
  keep(what: string, secret: string): string {
    this.secrets.set(what, secret);
    return secret;
  }

  /** Connects with the certificate of an identity of the network, or whatever else is said. */
  async connect(target: Target, o: RawPeerOptions = this.known): Promise<RawPeer> {
    return await RawPeer.connect(target.port(this), {
      ...o,
      ...(target.alpn === undefined ? {} : { alpn: target.alpn }),
    });
  }

  /** The lines that a program logged about a peer: exactly one is wanted, and it is given back. */
  async loggedOnce(target: Target, { address, since }: ConnectionOrigin): Promise<string> {
    const about = (): string[] =>
      target
        .program(this)
        .tail.filter((line) => line.includes(`"${address}"`))
        .filter((line) => new Date((JSON.parse(line) as { time: string | number }).time).getTime() >= since);
    await eventually(`a line about ${address} in the log of ${target.name}`, () => about().length > 0);
    // What would be said a second time is said at once.
    await pause(50);
    expect(about()).toEqual([expect.any(String)]);
    return about()[0]!;
  }

  /** Sends JSON, unless the headers say otherwise. */
  async post(
    api: "client" | "management",
    path: string,
    body: string | Buffer,
    o: RawPeerOptions & { headers?: Record<string, string> } = {},
  ): Promise<RawAnswer> {
    const { headers = {}, ...peer } = o;
    const type = { "Content-Type": "application/json", ...headers };
    return await rawRequest(this.network.port, requestText("POST", `/edge/${api}/v1${path}`, type, body), peer);
  }
}
