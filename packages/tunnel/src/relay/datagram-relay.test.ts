import { describe, expect, it } from "vitest";
import { DatagramInbox } from "./datagram-relay.ts";

function received(inbox: DatagramInbox): string[] {
  const texts: string[] = [];
  inbox.listen((datagram) => void texts.push(datagram.toString()));
  return texts;
}

describe("an inbox of datagrams", () => {
  it("gives what came before and what comes after, in order, whatever becomes of the sender's bytes", () => {
    const inbox = new DatagramInbox();
    const bytes = Buffer.from("1");
    inbox.take(bytes);
    bytes.write("2");
    inbox.take(bytes);
    bytes.write("x");
    const texts = received(inbox);
    inbox.take(Buffer.from("3"));
    expect(texts).toEqual(["1", "2", "3"]);
  });

  it("keeps 64 datagrams", () => {
    const inbox = new DatagramInbox();
    for (let i = 0; i < 100; i++) inbox.take(Buffer.from(String(i)));
    expect(received(inbox)).toEqual(Array.from({ length: 64 }, (_, i) => String(i)));
  });

  it("keeps 128 KiB, and what still fits into them", () => {
    const inbox = new DatagramInbox();
    const largest = Buffer.alloc(65_507, "a");
    for (let i = 0; i < 5; i++) inbox.take(largest);
    inbox.take(Buffer.from("small"));
    expect(received(inbox)).toEqual([largest.toString(), largest.toString(), "small"]);
  });

  it("forgets what it kept when there will be no listener", () => {
    const inbox = new DatagramInbox();
    inbox.take(Buffer.from("1"));
    inbox.clear();
    expect(received(inbox)).toEqual([]);
  });
});
