import { isIP } from "node:net";
import { writeRouterConfig } from "@sallyport/router-config";

/** A complete file for an edge router with links and SDK clients on one port. Throws RouterConfigError for bad values. */
export function createConfig(o: { routerName: string; controller: string; host: string; port: number }): string {
  const name = o.routerName;
  const bind = `tls:${isIP(o.host) === 6 ? "[::]" : "0.0.0.0"}:${o.port}`;
  const advertise = `${o.host.includes(":") ? `[${o.host}]` : o.host}:${o.port}`;
  return writeRouterConfig(
    {
      v: 3,
      identity: { cert: `${name}.cert`, server_cert: `${name}.server.cert`, key: `${name}.key`, ca: `${name}.ca` },
      ctrl: { endpoint: o.controller },
      csr: { sans: isIP(o.host) === 0 ? { dns: [o.host] } : { ip: [o.host] } },
      edge: {},
      link: {
        listeners: [{ binding: "transport", bind, advertise }],
        dialers: [{ binding: "transport" }],
      },
      listeners: [{ binding: "edge", address: bind, options: { advertise } }],
      dialers: [{ binding: "transport" }],
    },
    { header: `Edge router ${name}. Every other key and its default: docs/router.md.` },
  );
}
