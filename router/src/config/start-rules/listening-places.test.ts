import { parseRouterConfig, type RouterConfig } from "@sallyport/router-config";
import { expect, it } from "vitest";
import { formatRemark } from "../remark.ts";
import { takenPlaces } from "./listening-places.ts";

const read = (text: string): RouterConfig =>
  parseRouterConfig(`v: 3
identity: { cert: c, key: k, ca: a }
ctrl: { endpoint: "tls:localhost:1" }
${text}`).config;

const web = (...hosts: string[]) =>
  `web: [${hosts.map((host) => `{ name: h, apis: [{ binding: health-checks }], bindPoints: [{ interface: "${host}", address: "${host}" }] }`).join(", ")}]\n`;
const link = (at: string) => `link: { listeners: [{ binding: transport, bind: "tls:${at}", advertise: "r:1" }] }\n`;
const listener = (binding: string, at: string) =>
  `{ binding: ${binding}, address: "${at}", service: s, options: { advertise: "r:1" } }`;
const listeners = (...all: [string, string][]) => `listeners: [${all.map((each) => listener(...each)).join(", ")}]\n`;

it.each([
  ["two web servers", web("127.0.0.1:1", "127.0.0.1:1"), /^web\[1\]\.bindPoints\[0\]\.interface: .*web\[0\].*h2/],
  ["a web server on all addresses", web("127.0.0.1:1", "0.0.0.0:1"), /^web\[1\].*taken by web\[0\].*very same address/],
  [
    "a web server beside a link",
    link("0.0.0.0:1") + web("127.0.0.1:1"),
    /^web\[0\].*taken by link\.listeners\[0\]\.bind/,
  ],
  [
    "a web server beside plain TCP",
    listeners(["proxy", "tcp:127.0.0.1:1"]) + web("127.0.0.1:1"),
    /^web\[0\].*listeners\[0\]/,
  ],
  [
    "a web server beside web sockets",
    listeners(["edge", "wss:0.0.0.0:1"]) + web("0.0.0.0:1"),
    /web sockets need a port/,
  ],
  ["two edge listeners", listeners(["edge", "tls:0.0.0.0:1"], ["edge", "tls:0.0.0.0:1"]), /^listeners\[1\].*ziti-edge/],
  ["an edge listener and plain TLS", listeners(["edge", "tls:0.0.0.0:1"], ["proxy", "tls:0.0.0.0:1"]), /without ALPN/],
  [
    "all addresses of both families",
    listeners(["proxy", "tcp::1"], ["transport", "tcp:0.0.0.0:1"]),
    /\[::\]:1|0\.0\.0\.0:1/,
  ],
  ["two of UDP", listeners(["transport", "udp:0.0.0.0:1"], ["proxy_udp", "udp:127.0.0.1:1"]), /^listeners\[1\]/],
  [
    "the API proxy",
    `edge: { apiProxy: { listener: "h:1", upstream: "c:1" } }\n${link("h:1")}`,
    /^edge\.apiProxy\.listener/,
  ],
])("%s cannot have the port of another", (_what, text, message) => {
  expect(takenPlaces(read(text)).map((remark) => formatRemark(remark))).toEqual([expect.stringMatching(message)]);
});

it.each([
  [
    "an edge listener, a link and a web server",
    listeners(["edge", "tls:0.0.0.0:1"]) + link("0.0.0.0:1") + web("0.0.0.0:1"),
  ],
  ["all interfaces in two spellings", listeners(["edge", "tls::1"]) + link("[::]:1")],
  ["UDP and TCP", listeners(["transport", "udp:0.0.0.0:1"], ["transport", "tcp:0.0.0.0:1"])],
  ["two addresses", web("127.0.0.1:1", "127.0.0.2:1")],
  ["any free port", listeners(["proxy", "tcp:127.0.0.1:0"], ["proxy", "tcp:127.0.0.1:0"])],
])("%s may have one number", (_what, text) => {
  expect(takenPlaces(read(text))).toEqual([]);
});
