import {
  ControlType,
  ctrlPb,
  decodeControl,
  encodeControl,
  FaultSubject,
  type Identity,
  LinkUnderlay,
  type Message,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Controllers } from "../control/controllers/controllers.ts";
import { dialer, healthy, type LinkRouter, startLinkRouter } from "../testing/link-router.ts";
import { ScriptedController, testControllers } from "../testing/scripted-controller.ts";
import type { Link } from "./link.ts";
import { LinkControl } from "./link-control.ts";

let alphaIdentity: Identity;
let betaIdentity: Identity;
let controllerIdentity: Identity;
let otherIdentity: Identity;
let controller: ScriptedController;
let controllers: Controllers;
let control: LinkControl;
let alpha: LinkRouter;
let beta: LinkRouter;
let measured = 0;
const { LinkFault, LinkDuplicate, ForwardFault } = FaultSubject;

beforeAll(async () => {
  const authority = await TestAuthority.create();
  [alphaIdentity, betaIdentity, controllerIdentity, otherIdentity] = await Promise.all([
    authority.identity("alpha"),
    authority.identity("beta"),
    authority.identity("ctrl1"),
    authority.identity("ctrl2"),
  ]);
});

beforeEach(async () => {
  measured = 0;
  // One that is given to no one else while the controller is away.
  controller = await ScriptedController.start(controllerIdentity, "ctrl1", await freePort());
  controllers = testControllers(alphaIdentity);
  control = new LinkControl(controllers, silentLogger, () => measured++);
  alpha = await startLinkRouter("alpha", {
    identity: alphaIdentity,
    dialers: [{ ...dialer, maxDefaultConnections: 2, maxAckConnections: 1 }],
    reports: control,
  });
  beta = await startLinkRouter("beta", { identity: betaIdentity });
  control.attach(alpha.links);
});
afterEach(async () => {
  controllers.stop();
  await alpha.close();
  await beta.close();
  await controller.close();
});

const linksOf = (message: Message) => decodeControl(ctrlPb.RouterLinksSchema, message.body).links;
const faultOf = (message: Message) => decodeControl(ctrlPb.FaultSchema, message.body);
const nextLinks = async () => linksOf(await controller.next(ControlType.RouterLinks));
const nextFault = async () => faultOf(await controller.next(ControlType.Fault));

async function connect(): Promise<void> {
  controllers.setEndpoints([controller.address]);
  await controller.channel();
  await vi.waitFor(() => expect(controllers.all()).toHaveLength(1), 10_000);
}

async function tellOfBeta(state: ctrlPb.PeerState = ctrlPb.PeerState.Healthy, from = controller): Promise<void> {
  const { id, version, listeners } = healthy(beta);
  (await from.channel()).send({
    contentType: ControlType.PeerStateChanges,
    body: encodeControl(ctrlPb.PeerStateChangesSchema, {
      changes: [{ id, version, state, listeners: listeners.map((l) => ({ ...l, groups: [...l.groups] })) }],
    }),
  });
}

describe("what controllers are told", () => {
  it("an empty list by a router without links; then a link with its connections and what becomes of them", async () => {
    await connect();
    expect(await nextLinks()).toEqual([]);
    await tellOfBeta();
    const [link] = await nextLinks();
    expect(link).toMatchObject({
      destRouterId: "beta",
      linkProtocol: "tls",
      dialAddress: beta.address,
      iteration: 1,
      connState: { stateIteration: 0, conns: [{ type: LinkUnderlay.Default }] },
    });
    const at = /^tcp:127\.0\.0\.1:\d+$/;
    expect(link?.connState?.conns[0]).toMatchObject({
      localAddr: expect.stringMatching(at),
      remoteAddr: expect.stringMatching(at),
    });
    const update = async () =>
      decodeControl(ctrlPb.LinkStateUpdateSchema, (await controller.next(ControlType.LinkStateUpdate)).body);
    let last = await update();
    while ((last.connState?.conns.length ?? 0) < 3) last = await update();
    expect(last).toMatchObject({ linkId: link?.id, linkIteration: 1 });
    expect(last.connState?.conns.map(({ type }) => type)).toEqual([
      LinkUnderlay.Default,
      LinkUnderlay.Default,
      LinkUnderlay.Ack,
    ]);
    const before = last.connState?.stateIteration ?? 0;
    expect(before).toBeGreaterThan(0);
    alpha.links.links()[0]?.channel.underlays[0]?.close();
    last = await update();
    while (last.connState?.conns.length !== 3) last = await update();
    expect(last.connState.stateIteration).toBeGreaterThan(before);
    await vi.waitFor(() => expect(measured).toBe(1), 10_000);
  });

  it("a broken link, and the next iteration under the same id", async () => {
    await connect();
    await tellOfBeta();
    await nextLinks();
    const [first] = await nextLinks();
    beta.links.links()[0]?.close();
    expect(await nextFault()).toMatchObject({ subject: LinkFault, id: first?.id, iteration: 1 });
    expect(await nextLinks()).toMatchObject([{ id: first?.id, iteration: 2 }]);
  });

  it("all dialled links again after every connect", async () => {
    await connect();
    await tellOfBeta();
    await nextLinks();
    const [first] = await nextLinks();
    (await controller.channel()).close();
    await controller.connections(2);
    expect(await nextLinks()).toMatchObject([{ id: first?.id, iteration: 1 }]);
  });

  it("the last thousand of the links that broke while no controller was there", async () => {
    for (let i = 0; i < 1_100; i++) control.failed({ id: `l${i}`, iteration: 1 } as Link);
    await connect();
    expect(await nextFault()).toMatchObject({ subject: LinkFault, id: "l100" });
  });

  it("a link that broke while the controller was away, unless it is back already", async () => {
    await connect();
    await tellOfBeta();
    await nextLinks();
    const [first] = await nextLinks();
    const { port } = controller.port;
    for (const channel of controller.hellos) channel.close();
    await controller.close();
    await vi.waitFor(() => expect(controllers.all()).toEqual([]), 10_000);
    alpha.links.links()[0]?.close();
    await vi.waitFor(() => expect(alpha.links.links()[0]?.iteration).toBe(2), 10_000);
    const away = alpha.links.links()[0];
    controller = await ScriptedController.start(controllerIdentity, "ctrl1", port);
    expect(await nextLinks()).toMatchObject([{ id: first?.id, iteration: 2 }]);
    expect(controller.received.some((message) => message.contentType === ControlType.Fault)).toBe(false);
    for (const channel of controller.hellos) channel.close();
    await controller.close();
    await vi.waitFor(() => expect(controllers.all()).toEqual([]), 10_000);
    await beta.close();
    await vi.waitFor(() => expect(alpha.links.links()).toEqual([]), 10_000);
    controller = await ScriptedController.start(controllerIdentity, "ctrl1", port);
    expect(await nextFault()).toMatchObject({ subject: LinkFault, id: away?.id, iteration: 2 });
    expect(await nextLinks()).toEqual([]);
  });

  it.each([
    ["from the dialling end alone, where the controller takes one end's word", 0x0e, 0],
    ["from both ends, where it does not", 0x0a, 1],
  ])("links %s", async (_what, capabilities, count) => {
    controller.capabilities = capabilities;
    const gamma = await startLinkRouter("gamma", { identity: betaIdentity, routerId: "beta", dialers: [dialer] });
    gamma.links.peersChanged([healthy(alpha)]);
    await vi.waitFor(() => expect(alpha.links.links()).toHaveLength(1), 10_000);
    await connect();
    const links = await nextLinks();
    expect(links).toHaveLength(count);
    if (count > 0) expect(links[0]).toMatchObject({ destRouterId: "beta", id: gamma.links.links()[0]?.id });
    await gamma.close();
  });

  it("a duplicate, with the iteration of the link that lost", async () => {
    await connect();
    await tellOfBeta();
    await vi.waitFor(() => expect(alpha.links.links()).toHaveLength(1), 10_000);
    const [link] = alpha.links.links();
    control.duplicate(link!);
    expect(await nextFault()).toMatchObject({ subject: LinkDuplicate, id: link?.id, iteration: 1 });
  });
});

describe("what controllers say", () => {
  it("a fault closes the link of that iteration; other subjects and unknown links change nothing", async () => {
    await connect();
    await tellOfBeta();
    await nextLinks();
    const [first] = await nextLinks();
    const link = alpha.links.links()[0]!;
    const channel = await controller.channel();
    const say = (subject: FaultSubject, id: string, iteration: number) =>
      channel.send({
        contentType: ControlType.Fault,
        body: encodeControl(ctrlPb.FaultSchema, { subject, id, iteration }),
      });
    say(ForwardFault, link.id, 1);
    say(LinkFault, "unknown", 1);
    link.close();
    expect(await nextLinks()).toMatchObject([{ id: first?.id, iteration: 2 }]);
    const second = alpha.links.links()[0]!;
    say(LinkFault, second.id, 1);
    await channel.request({ contentType: 1 });
    expect(second.isClosed).toBe(false);
    say(LinkFault, second.id, 2);
    await second.channel.closed;
    expect(await nextLinks()).toMatchObject([{ id: first?.id, iteration: 3 }]);
  });

  it("a fault without an iteration means the link as it is", async () => {
    await connect();
    await tellOfBeta();
    await vi.waitFor(() => expect(alpha.links.links()).toHaveLength(1), 10_000);
    const [link] = alpha.links.links();
    (await controller.channel()).send({
      contentType: ControlType.Fault,
      body: encodeControl(ctrlPb.FaultSchema, { subject: LinkFault, id: link!.id }),
    });
    await link!.channel.closed;
  });

  it("dial this: the link gets an id of the router's own, so the one that was asked for is said to be broken", async () => {
    await connect();
    (await controller.channel()).send({
      contentType: ControlType.Dial,
      body: encodeControl(ctrlPb.DialSchema, { linkId: "chosen", address: beta.address, routerId: "beta" }),
    });
    expect(await nextFault()).toMatchObject({ subject: LinkFault, id: "chosen" });
  });

  it("a router that one of several has lost is still linked to while another has it", async () => {
    const other = await ScriptedController.start(otherIdentity, "ctrl2");
    try {
      controllers.setEndpoints([controller.address, other.address]);
      await vi.waitFor(() => expect(controllers.all()).toHaveLength(2), 10_000);
      await tellOfBeta(ctrlPb.PeerState.Healthy);
      await tellOfBeta(ctrlPb.PeerState.Healthy, other);
      await nextLinks();
      await nextLinks();
      await tellOfBeta(ctrlPb.PeerState.Unhealthy, other);
      await (await other.channel()).request({ contentType: 1 });
      beta.links.links()[0]?.close();
      expect(await nextLinks()).toMatchObject([{ destRouterId: "beta", iteration: 2 }]);
    } finally {
      controllers.stop();
      await other.close();
    }
  });

  it("a router that was removed: its link closes, and it is not dialled again", async () => {
    await connect();
    await tellOfBeta();
    await vi.waitFor(() => expect(alpha.links.links()).toHaveLength(1), 10_000);
    await tellOfBeta(ctrlPb.PeerState.Removed);
    await vi.waitFor(() => expect([alpha.links.links(), alpha.links.states()]).toEqual([[], []]), 10_000);
  });
});

describe("whether a router is who it says", () => {
  const verify = (): Promise<void> => control.verify("beta", betaIdentity.leafFingerprint);

  it("is asked with its id and the fingerprint of its leaf alone, and a yes is a yes", async () => {
    controller.on(ControlType.VerifyRouter, (message, channel) => channel.replyResult(message, true));
    await connect();
    await verify();
    const asked = await controller.next(ControlType.VerifyRouter);
    expect(decodeControl(ctrlPb.VerifyRouterSchema, asked.body)).toMatchObject({
      routerId: "beta",
      fingerprints: [betaIdentity.leafFingerprint],
    });
  });

  it("waits for a controller when none is connected", async () => {
    controller.on(ControlType.VerifyRouter, (message, channel) => channel.replyResult(message, true));
    const verified = verify();
    await connect();
    await verified;
  });

  it("a no of the controller is a no with the reason, and so is that none came", async () => {
    await expect(controllers.connected("testing", 20)).rejects.toMatchObject({
      code: "NO_CONTROLLER",
      message: "testing: no controller is connected, and none came within 20 ms",
    });
    controller.on(ControlType.VerifyRouter, (message, channel) => channel.replyResult(message, false, "never seen"));
    await connect();
    await expect(verify()).rejects.toMatchObject({
      code: "ROUTER_NOT_VERIFIED",
      message: expect.stringContaining("never seen"),
    });
  });
});
