import { mkdirSync } from "node:fs";
import { type ApiClient, createClient } from "@sallyport/api";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { eventually } from "./eventually.ts";
import { type Network, type NetworkOptions, startNetwork } from "./network.ts";
import { TcpWay } from "./tcp-way.ts";

/** Routers of a mesh, and who dials whom. */
export type Pair = readonly [dialer: string, listener: string];

/** What a link has when it is whole: three for everything, and one for acknowledgements. */
export const LINK_CONNECTIONS = 4;

/** A network whose links each go over a way that can be cut. */
export interface Mesh {
  readonly network: Network;
  readonly fabric: ApiClient<"fabric">;
  /** The way of all routers to the controller; there is one with `withControlWay`. */
  readonly controlWay: TcpWay | undefined;
  /** The way between two routers, whichever of them dials. */
  way(one: string, other: string): TcpWay;
  /** Resolves when the controller has a connected link for this pair (and, when given, of a later iteration than that). */
  linked(one: string, other: string, after?: number): Promise<number>;
  /** Resolves when the link of this iteration is connected no more. */
  unlinked(one: string, other: string, iteration: number): Promise<void>;
  stop(): Promise<void>;
}

export interface MeshOptions extends Omit<NetworkOptions, "routerSettings" | "onController"> {
  readonly pairs: readonly Pair[];
  /** `link.heartbeats.closeUnresponsiveTimeout` of every router. */
  readonly linkTimeout?: string;
  /** More lines for every dialer, indented by six. */
  readonly dialerLines?: string;
  /** Puts a way in front of the controller's control channel. */
  readonly withControlWay?: boolean;
  /** Loopback address that links use. */
  readonly host?: string;
  /** Starts the controller and its first routers; {@link startNetwork} when absent. */
  readonly start?: (folder: string, options: NetworkOptions) => Promise<Network>;
}

/**
 * Starts a controller and the routers that the pairs name; `r1` and `r2` must be among them. Every pair has a group of its own, so
 * that exactly one of them dials, and its way is the only one there is between the two.
 */
export async function startMesh(folder: string, o: MeshOptions): Promise<Mesh> {
  mkdirSync(folder, { recursive: true });
  const host = o.host ?? "127.0.0.1";
  const ports = await freePorts(o.pairs.length);
  const ways = await Promise.all(ports.map(async (port) => await TcpWay.start(port, host)));
  const bind = host.includes(":") ? `[${host}]` : host;
  const section = (name: string): string => {
    const groups = (at: 0 | 1) =>
      o.pairs.flatMap((pair, i) => (pair[at] === name ? [{ i, group: pair.join("-") }] : []));
    const dialers = groups(0).map(
      ({ group }) => `    - binding: transport
      groups: [${group}]
      startupDelay: 100ms
      healthyDialBackoff: { minRetryInterval: 100ms, maxRetryInterval: 1s }
      unhealthyDialBackoff: { minRetryInterval: 100ms, maxRetryInterval: 1s }
${o.dialerLines ?? ""}`,
    );
    const listeners = groups(1).map(
      ({ i, group }) => `    - binding: transport
      bind: tls:${bind}:${ports[i]}
      advertise: tls:${host.includes(":") ? bind : "localhost"}:${ways[i]?.port}
      groups: [${group}]
`,
    );
    return `link:
  heartbeats: { sendInterval: 500ms, checkInterval: 100ms, closeUnresponsiveTimeout: ${o.linkTimeout ?? "3s"} }
  dialers:${dialers.length === 0 ? " []" : ""}
${dialers.join("")}  listeners:${listeners.length === 0 ? " []" : ""}
${listeners.join("")}`;
  };
  const controlWay = o.withControlWay === true ? await TcpWay.start(0) : undefined;
  const network = await (o.start ?? startNetwork)(folder, {
    ...o,
    // What the controller says of itself counts for routers, not what their files say.
    controllerSettings: (text) => {
      const changed = o.controllerSettings?.(text) ?? text;
      return controlWay === undefined
        ? changed
        : changed.replace(/(^ctrl:\n(?: .*\n)*? +advertise: localhost:)\d+/m, `$1${controlWay.port}`);
    },
    onController: async (port) => controlWay?.leadTo(port),
    routerSettings: (name, text) => {
      return (o.host === undefined ? text : text.replace('ip: ["127.0.0.1"]', `ip: ["127.0.0.1", "${host}"]`)).replace(
        /^link:\n(?: .*\n)*/m,
        section(name),
      );
    },
  });
  const fabric = createClient("fabric", {
    baseUrl: `https://localhost:${network.port}`,
    tls: { rejectUnauthorized: false },
  });
  const stop = async (): Promise<void> => {
    fabric.close();
    await network.stop();
    for (const way of [...ways, ...(controlWay === undefined ? [] : [controlWay])]) await way.close();
  };
  try {
    const session = await network.management.authenticate({
      query: { method: "password" },
      body: { username: "admin", password: network.adminPassword },
    });
    fabric.setToken(session.data.token);
    const names = new Set(o.pairs.flat());
    for (const name of names) {
      if (name === "r1" || name === "r2") continue;
      await network.enrollRouter(name);
      await network.startRouter(name);
    }
    const index = (one: string, other: string): number =>
      o.pairs.findIndex((pair) => pair.includes(one) && pair.includes(other));
    const link = async (one: string, other: string) => {
      const { data } = await fabric.listLinks({ query: { limit: 100 } });
      return data.find(
        ({ sourceRouter, destRouter, state }) =>
          state.toLowerCase() === "connected" &&
          [one, other].every((n) => [sourceRouter.name, destRouter.name].includes(n)),
      );
    };
    const mesh: Mesh = {
      network,
      fabric,
      controlWay,
      way: (one, other) => {
        const way = ways[index(one, other)];
        if (way === undefined) throw new Error(`${one} and ${other} are no pair of this mesh`);
        return way;
      },
      unlinked: async (one, other, iteration) => {
        await eventually(
          `the link of ${one} and ${other} is gone`,
          async () => (await link(one, other))?.iteration !== iteration,
          60_000,
        );
      },
      linked: async (one, other, after = 0) => {
        let iteration = 0;
        const isLater = async (): Promise<boolean> => {
          iteration = (await link(one, other))?.iteration ?? 0;
          return iteration > after;
        };
        await eventually(`a link of ${one} and ${other}, iteration above ${after}`, isLater, 60_000);
        return iteration;
      },
      stop,
    };
    for (const [one, other] of o.pairs) await mesh.linked(one, other);
    return mesh;
  } catch (error) {
    await stop();
    throw error;
  }
}
