import { type Channel, Headers, type Underlay } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RouterConnection } from "./router-connection.ts";
import { TimeShare } from "./time-share.ts";

/** Milliseconds of processor time that were spent. */
let spent: number;
beforeEach(() => {
  vi.useFakeTimers();
  spent = 0;
  vi.spyOn(process, "threadCpuUsage").mockImplementation(() => ({ user: spent * 1_000, system: 0 }));
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

class OneUnderlay {
  isPaused = false;
  pause(): void {
    this.isPaused = true;
  }
  resume(): void {
    this.isPaused = false;
  }
}

function connect(underlays: OneUnderlay[]) {
  const onClose: (() => void)[] = [];
  const channel = {
    underlays: underlays as unknown as Underlay[],
    hello: { idToken: "evil", headers: new Headers() },
    isClosed: false,
    onClose: (cb: () => void) => onClose.push(cb),
  };
  const log = new RecordingLogger();
  const router = new RouterConnection({
    record: { id: "evil", name: "evil", fingerprint: "f", isDisabled: false, isTunneler: false } as never,
    channel: channel as unknown as Channel,
    version: {} as never,
    listeners: [],
    connectedAt: new Date(0),
    maxQueuedBytes: 1,
    share: new TimeShare(),
    log,
  });
  const close = () => {
    channel.isClosed = true;
    for (const cb of onClose) cb();
  };
  return { router, log, onClose, close };
}

/** A message that takes a millisecond. */
const work = () => {
  spent += 1;
  vi.advanceTimersByTime(1);
};

test("a router whose small messages arrive many at a time takes a quarter of the time", () => {
  const underlay = new OneUnderlay();
  const { router, log, onClose } = connect([underlay]);
  // Its allowance.
  while (!underlay.isPaused) router.atOnce(work);
  const [begun, before] = [performance.now(), spent];
  let pauses = 0;
  while (performance.now() < begun + 60_000) {
    vi.advanceTimersToNextTimer();
    if (underlay.isPaused) continue;
    // One write of the router: what was read is worked on to its end.
    for (let i = 0; i < 40; i++) router.atOnce(work);
    pauses++;
  }
  const share = (spent - before) / (performance.now() - begun);
  expect(share).toBeGreaterThan(0.2);
  expect(share).toBeLessThan(0.27);
  // Nothing stays behind of a pause, and each has its one line.
  expect(vi.getTimerCount()).toBe(1);
  expect(onClose).toHaveLength(1);
  expect(log.entries).toHaveLength(pauses + 1);
});

test("a connection that joins a paused channel is paused with its first message, and read again with the others", () => {
  const underlays = [new OneUnderlay()];
  const { router } = connect(underlays);
  while (underlays[0]?.isPaused === false) router.atOnce(work);
  underlays.push(new OneUnderlay());
  router.atOnce(work);
  expect(underlays.map(({ isPaused }) => isPaused)).toEqual([true, true]);
  underlays.push(new OneUnderlay());
  underlays.shift();
  vi.runAllTimers();
  expect(underlays.map(({ isPaused }) => isPaused)).toEqual([false, false]);
});

test("a closed channel has no pause any more", () => {
  const underlay = new OneUnderlay();
  const { router, close } = connect([underlay]);
  while (!underlay.isPaused) router.atOnce(work);
  close();
  router.atOnce(work);
  expect(vi.getTimerCount()).toBe(0);
});
