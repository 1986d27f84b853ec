import { isIP } from "node:net";
import { type RouterConfigFile, writeRouterConfig } from "@sallyport/router-config";

export type TunnelMode = "none" | "host" | "proxy" | "tproxy";

/** What a new configuration file is made of. */
export interface NewConfig {
  readonly routerName: string;
  /** `tls:<host>:<port>` of the control channel. */
  readonly controller: string;
  /** What others reach this router by: a name or an IP address. */
  readonly host: string;
  /** For SDKs. */
  readonly port: number;
  /** For other routers; may be the same, unless SDKs come in web sockets. */
  readonly linkPort: number;
  /** Other routers are dialled and cannot dial this one. */
  readonly isPrivate: boolean;
  /** SDKs come in web sockets. */
  readonly wss: boolean;
  readonly tunnelMode: TunnelMode;
}

/** A complete, commented file for an edge router. @throws ConfigError for bad values */
export function createConfig(o: NewConfig): string {
  const { routerName: name, host, port } = o;
  const isV6 = isIP(host) === 6;
  const bind = (at: number) => `:${isV6 ? "[::]" : "0.0.0.0"}:${at}`;
  const reach = (at: number) => `${isV6 ? `[${host}]` : host}:${at}`;
  // A web socket and a link cannot share a port: nothing tells them apart before their first bytes.
  const linkPort = o.wss && o.linkPort === port ? port + 1 : o.linkPort;
  const listener = { binding: "transport", bind: `tls${bind(linkPort)}`, advertise: reach(linkPort) } as const;
  const file: RouterConfigFile = {
    v: 3,
    identity: { cert: `${name}.cert`, server_cert: `${name}.server.cert`, key: `${name}.key`, ca: `${name}.ca` },
    ctrl: { endpoint: o.controller },
    csr: { sans: isIP(host) === 0 ? { dns: [host] } : { ip: [host] } },
    edge: {},
    link: { ...(o.isPrivate ? {} : { listeners: [listener] }), dialers: [{ binding: "transport" }] },
    listeners: [
      { binding: "edge", address: `${o.wss ? "wss" : "tls"}${bind(port)}`, options: { advertise: reach(port) } },
      ...(o.tunnelMode === "none" ? [] : [{ binding: "tunnel" as const, options: { mode: o.tunnelMode } }]),
    ],
    dialers: [{ binding: "transport" }],
  };
  return writeRouterConfig(file, {
    header: `Edge router ${name}. Every key and its default: docs/router/configuration.md. Check it with: sallyport-router check <this file>`,
  });
}
