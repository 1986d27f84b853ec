import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Link } from "./link.ts";
import { LinkRegistry } from "./link-registry.ts";

/** A link without connections: only what a registry looks at. */
class TestLink {
  readonly key: string;
  readonly peerId = "beta";
  isClosed = false;
  isProven = false;
  duplicatesRejected = 0;
  readonly id: string;
  readonly isDialed: boolean;
  readonly #closed: ((reason?: Error) => void)[] = [];
  readonly #proven: (() => void)[] = [];

  constructor(id: string, isDialed: boolean, key = "key") {
    this.id = id;
    this.isDialed = isDialed;
    this.key = key;
  }

  onClose(cb: (reason?: Error) => void): void {
    this.#closed.push(cb);
  }

  onProven(cb: () => void): void {
    if (this.isProven) cb();
    else this.#proven.push(cb);
  }

  prove(): this {
    this.isProven = true;
    for (const cb of this.#proven.splice(0)) cb();
    return this;
  }

  close(reason?: Error): void {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const cb of this.#closed.splice(0)) cb(reason);
  }
}

const events: string[] = [];
let registry: LinkRegistry;
const dialed = (id: string) => new TestLink(id, true);
const accepted = (id: string) => new TestLink(id, false);
const register = (link: TestLink): boolean => registry.register(link as unknown as Link);
const current = () => registry.current().map((link) => link.id);

beforeEach(() => {
  vi.useFakeTimers();
  events.length = 0;
  registry = new LinkRegistry(
    {
      added: (link) => events.push(`added ${link.id}`),
      replaced: (link, by) => events.push(`${link.id} replaced by ${by.id}`),
      removed: (link, wasCurrent, _reason, heir) =>
        events.push(`removed ${link.id}${wasCurrent ? " in use" : ""}${heir === undefined ? "" : `, then ${heir.id}`}`),
    },
    silentLogger,
  );
});
afterEach(() => {
  registry.close();
  vi.useRealTimers();
});

/** Seconds from now until the link closes. */
function closesAfter(link: TestLink): number {
  let seconds = 0;
  while (!link.isClosed && seconds < 200) {
    vi.advanceTimersByTime(1000);
    seconds++;
  }
  return seconds;
}

describe("the loser of a contest", () => {
  it.each([
    ["was dialled and is in use: closes 60 s after the other has proved itself", dialed("b"), 60],
    ["was accepted and is in use: closes 75 s after", accepted("b"), 75],
  ])("%s", (_what, loser, seconds) => {
    expect(register(loser.prove())).toBe(true);
    const winner = accepted("a");
    expect(register(winner)).toBe(true);
    expect(current()).toEqual(["a"]);
    vi.advanceTimersByTime(100_000);
    expect(events).toEqual(["added b", "added a"]);
    winner.prove();
    expect(events).toEqual(["added b", "added a", "b replaced by a"]);
    expect(closesAfter(loser)).toBe(seconds);
    expect(events.at(-1)).toBe("removed b");
    expect(current()).toEqual(["a"]);
  });

  it("was just dialled: closes at once", () => {
    register(accepted("a").prove());
    const loser = dialed("b");
    expect(register(loser)).toBe(false);
    expect(loser.isClosed).toBe(true);
    expect(events).toEqual(["added a"]);
  });

  it("was just accepted: closes after 30 s, so that its dialer may do so first", () => {
    register(dialed("a"));
    const loser = accepted("b");
    expect(register(loser)).toBe(false);
    expect(closesAfter(loser)).toBe(30);
    expect(current()).toEqual(["a"]);
  });
});

describe("equal and closed links", () => {
  it("a redial, which has the same id, takes its place without proof and without a word of duplicates", () => {
    const first = dialed("a").prove();
    register(first);
    expect(register(dialed("a"))).toBe(true);
    expect(events).toEqual(["added a", "added a"]);
    expect(closesAfter(first)).toBe(60);
    expect(events.at(-1)).toBe("removed a");
    expect(registry.byId("a")?.isClosed).toBe(false);
  });

  it("one that is closed already is not taken in", () => {
    const closed = dialed("a");
    closed.close();
    expect(register(closed)).toBe(false);
    register(dialed("b"));
    expect(register(closed)).toBe(false);
    expect(current()).toEqual(["b"]);
  });

  it("the sixth duplicate replaces: the other end evidently does not see the link", () => {
    register(dialed("a").prove());
    const outcomes = ["b", "c", "d", "e", "f", "g"].map((id) => register(accepted(id).prove()));
    expect(outcomes).toEqual([false, false, false, false, false, true]);
    expect(current()).toEqual(["g"]);
    expect(events).toContain("a replaced by g");
  });

  it("an id that another link has is refused, whatever its key", () => {
    register(dialed("a"));
    const thief = new TestLink("a", false, "other key");
    expect(register(thief)).toBe(false);
    expect(thief.isClosed).toBe(true);
    expect(current()).toEqual(["a"]);
  });
});

describe("a contest of which the winner does not live", () => {
  it("gives the place back: no controller was told of a duplicate, and the link that worked goes on", () => {
    const working = accepted("b").prove();
    register(working);
    const winner = dialed("a");
    register(winner);
    winner.close();
    expect(events).toEqual(["added b", "added a", "removed a in use, then b"]);
    expect(current()).toEqual(["b"]);
    vi.advanceTimersByTime(200_000);
    expect(working.isClosed).toBe(false);
  });

  it("has no heir when the loser has ended meanwhile", () => {
    const loser = accepted("b");
    register(loser);
    const winner = dialed("a");
    register(winner);
    loser.close();
    winner.close();
    expect(events).toEqual(["added b", "added a", "removed b", "removed a in use"]);
    expect(current()).toEqual([]);
  });

  it("takes in what was turned away in its favour", () => {
    const unproven = dialed("a");
    register(unproven);
    const turnedAway = accepted("b");
    expect(register(turnedAway)).toBe(false);
    unproven.close();
    expect(events).toEqual(["added a", "removed a in use, then b", "added b"]);
    expect(current()).toEqual(["b"]);
    vi.advanceTimersByTime(200_000);
    expect(turnedAway.isClosed).toBe(false);
  });

  it("a dialled link is turned away for good only when the one in use has answered", () => {
    const unproven = accepted("a");
    register(unproven);
    const [kept, given] = [dialed("b"), dialed("c")];
    expect([register(kept), register(given)]).toEqual([false, false]);
    expect([kept.isClosed, given.isClosed]).toEqual([false, false]);
    unproven.close();
    expect(current()).toEqual(["b"]);
    kept.prove();
    vi.advanceTimersByTime(60_000);
    expect(current()).toEqual(["b"]);
  });

  it("a third link that wins ends both others", () => {
    const [first, second, third] = [accepted("c").prove(), accepted("b"), dialed("a")];
    for (const link of [first, second, third]) expect(register(link)).toBe(true);
    third.prove();
    expect(events).toContain("b replaced by a");
    vi.advanceTimersByTime(200_000);
    expect([first.isClosed, second.isClosed, third.isClosed]).toEqual([true, true, false]);
    expect(current()).toEqual(["a"]);
  });
});

it("closing a registry closes links in use, replaced and turned away, and leaves no timer", () => {
  const links = [dialed("b").prove(), dialed("a").prove(), accepted("z")];
  for (const link of links) register(link);
  registry.close();
  expect(links.every((link) => link.isClosed)).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});
