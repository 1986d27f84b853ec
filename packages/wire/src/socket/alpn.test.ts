import { describe, expect, test } from "vitest";
import { type AlpnEntry, selectAlpn } from "./alpn.ts";

const ctrl = { name: "ctrl", protocols: ["ziti-ctrl"], acceptsNoAlpn: false };
const link = { name: "link", protocols: ["ziti-link"], acceptsNoAlpn: false };
const edge = { name: "edge", protocols: ["ziti-edge"], acceptsNoAlpn: true };
const web = { name: "web", protocols: ["h2", "http/1.1"], acceptsNoAlpn: true };
const plain = { name: "plain", protocols: [], acceptsNoAlpn: true };

describe("who of a shared port takes a connection", () => {
  const table: [string, (AlpnEntry & { name: string })[], string[], string | undefined][] = [
    ["a controller's API", [ctrl, web], ["http/1.1"], "web http/1.1"],
    ["a controller's control channel", [ctrl, web], ["ziti-ctrl"], "ctrl ziti-ctrl"],
    ["the last offer wins, not the first", [ctrl, web], ["ziti-ctrl", "h2", "http/1.1"], "web http/1.1"],
    ["the last offer that a user registered", [ctrl, web], ["h2", "ziti-ctrl", "spdy"], "ctrl ziti-ctrl"],
    ["unregistered offers are refused", [ctrl, web], ["ziti-edge"], undefined],
    ["unregistered offers are refused on a port of one, too", [ctrl], ["h2"], undefined],
    ["no offer goes to who accepts that", [ctrl, web], [], "web "],
    ["no offer on a port of one name goes to it", [ctrl], [], "ctrl "],
    ["no offer is refused where two names are and no user accepts it", [ctrl, link], [], undefined],
    ["a client of the edge without ALPN", [link, edge], [], "edge "],
    ["a client of the edge with ALPN", [link, edge], ["ziti-edge"], "edge ziti-edge"],
    ["a router's link", [link, edge], ["ziti-link"], "link ziti-link"],
    ["only clients without ALPN, none offered", [plain], [], "plain "],
    ["only clients without ALPN, one offered", [plain], ["h2"], undefined],
    ["no users", [], [], undefined],
  ];

  test.each(table)("%s", (_what, registered, offered, expected) => {
    const choice = selectAlpn(offered, registered);
    expect(choice && `${choice.entry.name} ${choice.protocol ?? ""}`).toBe(expected);
  });
});
