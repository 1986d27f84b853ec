import { expect, test } from "vitest";
import { Listeners } from "./listeners.ts";

test("listeners are called in their order until they are removed", () => {
  const seen: string[] = [];
  const listeners = new Listeners<[string]>();
  const same = (text: string): void => void seen.push(`first ${text}`);
  const remove = listeners.add(same);
  listeners.add((text) => seen.push(`second ${text}`));
  const removeAgain = listeners.add(same);
  listeners.emit("a");
  remove();
  remove();
  expect(listeners.size).toBe(2);
  listeners.emit("b");
  removeAgain();
  listeners.clear();
  listeners.emit("c");
  expect(seen).toEqual(["first a", "second a", "first a", "second b", "first b"]);
});

test("a listener added meanwhile waits for the next call, one removed meanwhile is not called any more", () => {
  const seen: string[] = [];
  const listeners = new Listeners();
  const removes: (() => void)[] = [];
  listeners.add(() => {
    listeners.add(() => seen.push("added"));
    removes[0]?.();
  });
  removes.push(listeners.add(() => seen.push("removed")));
  listeners.emit();
  expect(seen).toEqual([]);
  listeners.emit();
  expect(seen).toEqual(["added"]);
});

test("an error of a listener is thrown, or reported while the others are called", () => {
  const seen: unknown[] = [];
  const plain = new Listeners();
  plain.add(() => {
    throw new Error("broken");
  });
  plain.add(() => seen.push("plain"));
  expect(() => plain.emit()).toThrow("broken");
  const reporting = new Listeners((error) => seen.push(String(error)));
  reporting.add(() => {
    throw new Error("broken");
  });
  reporting.add(() => seen.push("reporting"));
  reporting.emit();
  expect(seen).toEqual(["Error: broken", "reporting"]);
});
