import {
  ControlType,
  ctrlPb,
  decodeControl,
  EdgeHeader,
  EdgeType,
  encodeControl,
  Headers,
  type Message,
  silentLogger,
} from "@sallyport/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Access } from "../../access/ports.ts";
import { controlIdentities, startScriptedControl } from "../../testing/scripted-control.ts";
import type { SdkChannel } from "../sdk-channel.ts";
import { opaqueSession } from "../sdk-session.ts";
import { ServicePermissions } from "../tokens/service-permissions.ts";
import { HealthReports, MAX_WAITING_REFUSALS, PacedRefusals } from "./client-pace.ts";
import { Hosting, type SdkBinding } from "./hosting.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const listener = (identityId: string, connId: number) =>
  ({ connId, sdk: { session: { identityId } }, ended: new AbortController() }) as unknown as SdkBinding;

it("passes a result on at once, and of a flood the last one of each second", () => {
  const sent: boolean[] = [];
  const reports = new HealthReports<SdkBinding>((_, passed) => sent.push(passed));
  const one = listener("id1", 1);
  reports.report(one, false);
  expect(sent).toEqual([false]);
  for (let i = 0; i < 1_000; i++) reports.report(one, i % 2 === 1);
  expect(sent).toEqual([false]);
  vi.advanceTimersByTime(1_000);
  expect(sent).toEqual([false, true]);
  vi.advanceTimersByTime(10_000);
  expect(sent).toHaveLength(2);
  reports.report(one, false);
  expect(sent).toEqual([false, true, false]);
});

it("passes on twenty in a second of one client, however many listeners it has, and all of others", () => {
  const sent: string[] = [];
  const reports = new HealthReports<SdkBinding>((binding) =>
    sent.push(`${binding.sdk.session.identityId} ${binding.connId}`),
  );
  const all = Array.from({ length: 50 }, (_, i) => listener("flood", i));
  for (const each of all) reports.report(each, true);
  expect(sent).toHaveLength(20);
  reports.report(listener("calm", 1), true);
  expect(sent.at(-1)).toBe("calm 1");
  all.at(-1)?.ended.abort();
  vi.advanceTimersByTime(5_000);
  // Each comes to its turn, but for the one that ended meanwhile.
  expect(sent).toEqual([
    ...all.slice(0, 20).map(({ connId }) => `flood ${connId}`),
    "calm 1",
    ...all.slice(20, -1).map(({ connId }) => `flood ${connId}`),
  ]);
});

const asker = () => {
  const refused: (number | undefined)[] = [];
  const refusals = new PacedRefusals();
  const sender = () => ({ send: ({ contentType }: { contentType: number }) => void refused.push(contentType) });
  const [one, other] = [sender(), sender()];
  return { one, other, refused, refuse: (of: typeof one, contentType: number) => refusals.send(of, { contentType }) };
};

it("refuses the first request of a channel at once, and others within five seconds of it after one", () => {
  const { one, other, refused, refuse } = asker();
  refuse(one, 1);
  refuse(one, 2);
  refuse(other, 3);
  expect(refused).toEqual([1, 3]);
  vi.advanceTimersByTime(999);
  expect(refused).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(refused).toEqual([1, 3, 2]);
  // As an SDK does that binds again at each refusal.
  for (let i = 10; i < 20; i++) {
    refuse(one, i);
    expect(refused.at(-1)).not.toBe(i);
    vi.advanceTimersByTime(1_000);
    expect(refused.at(-1)).toBe(i);
  }
  vi.advanceTimersByTime(5_000);
  refuse(one, 4);
  expect(refused.at(-1)).toBe(4);
});

it("lets so many refusals of a channel wait, and sends what is more at once", () => {
  const { one, refused, refuse } = asker();
  for (let i = 0; i < MAX_WAITING_REFUSALS + 11; i++) refuse(one, i);
  expect(refused).toHaveLength(11);
  vi.advanceTimersByTime(1_000);
  expect(refused).toHaveLength(MAX_WAITING_REFUSALS + 11);
  expect(vi.getTimerCount()).toBe(0);
});

it("shows the instance of a terminator in an inspection only when the client named one", async () => {
  vi.useRealTimers();
  const end = await startScriptedControl(await controlIdentities());
  try {
    const controller = await end.connect();
    const hosting = new Hosting(end.control, new ServicePermissions({} as Access), silentLogger);
    const sdk = {
      session: opaqueSession({ id: "s", identityId: "id1", token: "at", certFingerprints: [] }),
      options: { maxListeners: 10 },
      isTaken: () => false,
      addListener: () => {},
      send: () => {},
      reply: () => {},
    } as unknown as SdkChannel;
    const bind = (connId: number, headers: Headers) => {
      const message: Partial<Message> = { contentType: EdgeType.Bind, headers, body: Buffer.from("st") };
      hosting.bind(sdk, connId, message as Message);
    };
    bind(1, new Headers());
    bind(2, new Headers().setString(EdgeHeader.TerminatorIdentity, "one"));
    const body = encodeControl(ctrlPb.InspectRequestSchema, { requestedValues: ["sdk-terminators"] });
    const reply = await controller.request({ contentType: ControlType.InspectRequest, body });
    const [inspected] = decodeControl(ctrlPb.InspectResponseSchema, reply.body).values;
    const { entries } = JSON.parse(inspected?.value ?? "") as { entries: object[] };
    expect(entries.map((entry) => "instance" in entry && entry.instance)).toEqual([false, "one"]);
  } finally {
    await end.close();
  }
});
