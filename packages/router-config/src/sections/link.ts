import { type Address, formatAddress } from "@sallyport/wire";
import { z } from "zod";
import {
  address,
  advertised,
  boolean,
  decimal,
  duration,
  integer,
  name,
  oneOf,
  refuse,
  section,
  textList,
} from "../scalars.ts";
import { channelKeys, channelOptions, heartbeatKeys, OUT_QUEUE_SIZE } from "./channel.ts";

const DAY = 24 * 3_600_000;
const links = { outQueueSize: OUT_QUEUE_SIZE.channel, bounded: false };
/** Hosts that mean every address of this machine, and no address to other machines. */
const ANY_HOST: ReadonlySet<string> = new Set(["", "0.0.0.0", "::"]);
const groups = textList().default(["default"]);
const addresses = "tls:0.0.0.0:3022";

/** Waiting times between failed dials. Specification: "link" and "Limits". */
const backoff = (d: { min: number; max: number; factor: number }) =>
  section({
    minRetryInterval: duration({ min: 10, max: DAY }).default(d.min),
    maxRetryInterval: duration({ min: 10, max: DAY }).default(d.max),
    retryBackoffFactor: decimal({ min: 1, max: 100 }).default(d.factor),
  })
    .superRefine(({ minRetryInterval: min, maxRetryInterval: max }, ctx) => {
      if (min > max) refuse(ctx, ["minRetryInterval"], "at most maxRetryInterval", `${min}ms`);
    })
    .prefault({});

const listener = section({
  binding: oneOf("transport"),
  bind: address("tls").optional(),
  address: address("tls").optional(),
  advertise: advertised().optional(),
  groups,
  costTags: textList().default([]),
  bindInterface: name("a network interface").optional(),
  options: section({ ...channelKeys(links), advertise: advertised().optional() }).prefault({}),
}).transform((entry, ctx) => {
  const { address: other, advertise: own, bind = other, options, ...rest } = entry;
  if (bind === undefined) return refuse(ctx, ["bind"], `a listening address such as ${addresses}`);
  const { advertise: inOptions, ...channel } = options;
  const given = own ?? inOptions;
  if (given?.protocol !== undefined && given.protocol !== bind.protocol) {
    const path = own === undefined ? ["options", "advertise"] : ["advertise"];
    return refuse(ctx, path, `<host>:<port>, or the protocol of bind (${bind.protocol}) before it`);
  }
  if (given === undefined && (bind.port === 0 || ANY_HOST.has(bind.host))) {
    return refuse(ctx, ["advertise"], "<host>:<port> that other routers can reach");
  }
  /** What other routers dial, always with its protocol. */
  const advertise: Address = { ...(given ?? bind), protocol: bind.protocol };
  return { ...rest, options: channel, bind, advertise, advertiseText: formatAddress(advertise) };
});

const dialer = section({
  binding: oneOf("transport"),
  split: boolean().default(true),
  bind: name("a network interface or local IP").optional(),
  groups,
  maxDefaultConnections: integer({ min: 1, max: 100 }).default(3),
  maxAckConnections: integer({ min: 0, max: 100 }).default(1),
  startupDelay: duration({ min: 0 }).default(3000),
  healthyDialBackoff: backoff({ min: 5000, max: 300_000, factor: 1.5 }),
  unhealthyDialBackoff: backoff({ min: 60_000, max: 3_600_000, factor: 10 }),
  options: channelOptions(links),
});

/** Links between routers. Specification: "link". */
export const link = section({
  listeners: z.array(listener, "a list").default([]),
  dialers: z.array(dialer, "a list").default([]),
  heartbeats: section(heartbeatKeys(60_000)).prefault({}),
});

/** Of a router without the section. */
export const LINK_DEFAULTS = link.parse({});
